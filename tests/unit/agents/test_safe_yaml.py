"""One key and one text, read no further than that."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.agents import safe_yaml


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("name: 1.0", ("name", "1.0")),
        ("d: yes", ("d", "yes")),
        ("d:", ("d", "")),
        ("d: >-\n  a\n  b\n", ("d", "a b")),
        ('"d": "a\\nb"', ("d", "a\nb")),
    ],
)
def test_any_scalar_is_a_text(text: str, found: tuple[str, str]) -> None:
    assert safe_yaml.load_pair(text) == found


@pytest.mark.parametrize(
    "text", ["", "x", "- a", "d: [a]", "d: {a: b}", "d: a: b", "a: b\nc: d", "a: b\n---\nc: d", "d: *x"]
)
def test_all_else_is_refused(text: str) -> None:
    with pytest.raises(safe_yaml.UnsafeYaml):
        safe_yaml.load_pair(text)


@given(st.text(max_size=200))
def test_nothing_else_is_raised(text: str) -> None:
    for one in (text, f"d: {text}", f'd: "{text}"', f'd: "\\U{text}"'):
        try:
            key, value = safe_yaml.load_pair(one)
        except safe_yaml.UnsafeYaml:
            continue
        assert isinstance(key, str)
        assert isinstance(value, str)


@pytest.mark.parametrize(
    "text", ["d: [" + "a," * 50_000, "d:\n" + "- a\n" * 50_000, "[" * 100_000, "d: " + "&a " * 50_000]
)
def test_it_stops_at_once(text: str) -> None:
    began = time.process_time()
    with pytest.raises(safe_yaml.UnsafeYaml):
        safe_yaml.load_pair(text)
    assert time.process_time() - began < 5, "it would be minutes"
