"""What the commands print: nothing that drives a terminal, nothing cut, and JSON that is what was meant."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_client.cli.output import Output, local_time, print_error, safe_json, safe_line, safe_text

ANY_TEXT = st.text(st.characters(codec=None))
"""Surrogates too, which no UTF-8 has."""
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=10,
)
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


@given(ANY_TEXT)
@example("\x1b]0;title\x07")
@example("\u202egnp.exe")
@example("\x9b31m")
@example("a\U000e0101b")
def test_nothing_that_drives_a_terminal_is_left(text: str) -> None:
    safe = safe_text(text)
    assert not CONTROL.search(safe)
    assert safe_text(safe) == safe
    assert "\n" not in safe_line(text)
    assert "\t" not in safe_line(text)
    safe.encode()


@pytest.mark.parametrize(
    "text", ["plain", "two\nlines\tand a tab", "größer", "日本語　です", "👩\u200d🔬", "a\u00a0b", "[bold]x[/]"]
)
def test_what_people_write_stays(text: str) -> None:
    assert safe_text(text) == text


def test_an_escape_shows_what_was_there() -> None:
    assert safe_text("\x1b[31mred\r\nnext\u202e") == r"\x1b[31mred" + "\nnext" + r"\u202e"


@given(VALUES)
def test_json_is_safe_to_show_and_says_the_same(value: Any) -> None:
    text = safe_json(value)
    assert not CONTROL.search(text)
    assert "\n" not in text
    assert json.loads(text) == value


class Screen(io.StringIO):
    """A stdout that is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_piped_a_table_is_lines_with_tabs_and_nothing_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    Output().table(("name", "error"), [("a", "x" * 500), ("b\tc", None)])
    assert capsys.readouterr().out == f"a\t{'x' * 500}\nb c\t\n"


def test_on_a_terminal_a_table_has_a_heading_and_reads_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(Screen()) as screen:
        Output().table(("name", "error"), [("a", "[red]:smile: \x1b[2J[/red]")])
    assert r"[red]:smile: \x1b[2J[/red]" in screen.getvalue()
    assert "error" in screen.getvalue()
    assert "\x1b[3" not in screen.getvalue()


def test_a_note_goes_to_stderr_and_not_beside_json(capsys: pytest.CaptureFixture[str]) -> None:
    Output().note("beside")
    Output(json=True).note("beside")
    print_error("two\nlines")
    assert capsys.readouterr() == ("", "beside\nagent: two\n  lines\n")


def test_an_encoding_that_lacks_a_character_gets_an_escape() -> None:
    raw = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(raw, encoding="ascii")) as _screen:
        Output().line("größer")
    assert raw.getvalue() == rb"gr\xf6\xdfer" + b"\n"


@pytest.mark.parametrize("odd", [10**16 - 1, 10**30, 10**400, -(10**30)])
def test_a_time_that_no_calendar_has_is_its_number(odd: int) -> None:
    assert local_time(odd) == f"{odd} ms"[:40]
