"""The reader of untrusted JSON: what it takes is what JSON says, and what it refuses costs little."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_common import json_reader
from agent_common.json_reader import JsonLimits, JsonRefused, check_cost, read_json, read_json_async

MIB = 1024 * 1024
LIMITS = JsonLimits(max_bytes=8 * MIB, max_values=1000, max_depth=20)

texts = st.text(st.characters(codec="utf-8")) | st.sampled_from(['"', "\\", '\\"', '[{,"', "\\\\", ""])
scalars = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | texts
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(texts, inner, max_size=5))


def count(value: Any) -> int:
    """Count values the slow way, in the parsed document."""
    if isinstance(value, dict | list):
        parts = list(value.values()) if isinstance(value, dict) else value
        return 1 + max(len(parts) - 1, 0) + sum(count(part) for part in parts)
    return 0


def depth(value: Any) -> int:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return 1 + max((depth(part) for part in parts), default=0)
    return 0


def refusal(data: bytes, limits: JsonLimits = LIMITS) -> str:
    with pytest.raises(JsonRefused) as caught:
        read_json(data, limits)
    assert len(str(caught.value)) <= 300
    return caught.value.code


@given(values, st.booleans(), st.sampled_from([None, 2]))
def test_valid_documents_are_read_as_they_are(value: Any, ascii_only: bool, indent: int | None) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()
    assert read_json(data, JsonLimits(max_bytes=MIB)) == value


@given(values)
def test_limits_are_exact(value: Any) -> None:
    data = json.dumps(value).encode()
    exact = JsonLimits(len(data), max(count(value), len(data) // 2), max(depth(value), 0))
    assert read_json(data, exact) == value
    assert refusal(data, JsonLimits(len(data) - 1)) == "too_large"
    if depth(value):
        assert refusal(data, JsonLimits(len(data), max_depth=depth(value) - 1)) == "too_deep"


@given(st.lists(st.lists(texts, min_size=1), min_size=1))
def test_values_are_counted_outside_of_strings_only(value: list[list[str]]) -> None:
    data = json.dumps(value).encode()
    assert read_json(data, JsonLimits(MIB, max_values=count(value))) == value
    padded = b" " * (4 * count(value)) + data  # long enough to be counted at all
    assert refusal(padded, JsonLimits(MIB, max_values=count(value) - 1)) == "too_many_values"


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = read_json(data, LIMITS)
    except JsonRefused:
        return
    assert json.loads(data) == value


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a":1,"b":{"c":1,"c":1}}', "duplicate_key"),
        (b'{"a":1,"\\u0061":1}', "duplicate_key"),
        (b'{"\\"":1,"\\"":2}', "duplicate_key"),
        (b'{"a":1e400}', "not_finite"),
        (b"[-1e999]", "not_finite"),
        (b"[NaN]", "invalid_json"),
        (b"[Infinity]", "invalid_json"),
        (b'["\\ud800"]', "invalid_json"),
        (b'["\xff"]', "invalid_utf8"),
        (b"1" * 5000, "invalid_json"),
        (b"", "invalid_json"),
        (b"{} {}", "invalid_json"),
        (b"[" * 21 + b"]" * 21, "too_deep"),
        (b"[" * 1000, "too_deep"),
        (b"[" * MIB, "too_many_values"),
        (b'{"messages":[' + b'{"":0},' * MIB + b"0]}", "too_many_values"),
        (b"[" + b'"",' * MIB + b'""]', "too_many_values"),
        (b'"' + b"x" * 8 * MIB + b'"', "too_large"),
    ],
)
def test_refused(data: bytes, code: str) -> None:
    assert refusal(data) == code


@pytest.mark.parametrize(
    "piece", [rb"\"", rb"\\", b",", b"[{", b'""', b'" "', rb"\"[", b'"\\\\"'], ids=lambda piece: piece.decode()
)
def test_cost_is_linear(piece: bytes) -> None:
    """A quadratic pass over 4 MiB would take hours."""
    before = time.process_time()
    for data in (piece * (4 * MIB // len(piece)), b'"' + piece * (4 * MIB // len(piece)) + b'"'):
        with contextlib.suppress(JsonRefused):
            read_json(data, LIMITS)
    assert time.process_time() - before < 10


def test_a_long_text_full_of_commas_is_few_values() -> None:
    text = "a, [b], {c}" * 100_000
    assert read_json(json.dumps([text]).encode(), LIMITS) == [text]


def test_check_cost_parses_nothing() -> None:
    check_cost(b"not JSON", LIMITS)


@pytest.mark.parametrize(("size", "inline"), [(10, True), (json_reader.INLINE_BYTES + 1, False)])
def test_large_documents_are_read_in_a_thread(size: int, inline: bool) -> None:
    threads: list[int] = []

    class Spy(bytes):
        def count(self, *given: Any) -> int:
            threads.append(threading.get_ident())
            return super().count(*given)

    assert asyncio.run(read_json_async(Spy(b" " * size + b"1"), LIMITS)) == 1
    assert ({*threads} == {threading.get_ident()}) is inline


@pytest.mark.parametrize("shift", range(4))
@pytest.mark.parametrize("piece", [rb"\"", rb"\\", rb"\\\"", b"[,", b"\\n"], ids=lambda piece: piece.decode())
def test_values_are_counted_across_blocks(piece: bytes, shift: int) -> None:
    """A string is longer than a block, so that blocks end in all places of an escape sequence."""
    text = b" " * shift + piece * (MIB // len(piece))
    data = b'[["' + text + b'",1],{"a":[]}]'
    assert read_json(data, JsonLimits(2 * MIB, max_values=6, max_depth=3))[1] == {"a": []}
    assert refusal(data, JsonLimits(2 * MIB, max_values=5)) == "too_many_values"
    assert refusal(data, JsonLimits(2 * MIB, max_depth=2)) == "too_deep"


def test_a_reader_of_many_small_events_leaves_out_the_look_at_every_value() -> None:
    limits = JsonLimits(MIB, refuse_ambiguous=False)
    assert read_json(b'{"a":1,"a":2}', limits) == {"a": 2}
    assert read_json(b"[1e400]", limits) == [float("inf")]
    with pytest.raises(JsonRefused):
        read_json(b"[NaN]", limits)
