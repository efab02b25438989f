"""What looks like a letter of ASCII, or like nothing, is shown by its number to who approves."""

from __future__ import annotations

import pytest

from agent_common.line_text import escape_invisible
from agent_common.lookalikes import escape_lookalikes

SHOWN = {
    "curl https://g\u0456thub.com/x": "curl https://g\\u0456thub.com/x",
    "rm -rf \u0441\u043e\u0440": "rm -rf \\u0441\\u043e\\u0440",
    "cat \u0441\u043e\u0440 # \u043f\u0440\u0438\u0432\u0435\u0442": (
        "cat \\u0441\\u043e\\u0440 # \u043f\u0440\u0438\u0432\u0435\u0442"
    ),
    "pip install r\u03bfute": "pip install r\\u03bfute",
    "\uff52\uff4d -rf": "\\uff52\\uff4d -rf",
    "a\u2215b\u2024sh": "a\\u2215b\\u2024sh",
    "node\u2010fetch": "node\\u2010fetch",
    "\u13a0b": "\\u13a0b",
}
AS_IT_IS = (
    "\u043f\u0440\u0438\u0432\u0435\u0442, \u0430 \u043a\u0430\u043a \u0434\u0435\u043b\u0430",
    "cat \u043e\u0442\u0447\u0451\u0442.txt",
    "\u0421\u0430\u0440\u0430 \u043f\u0440\u0438\u0448\u043b\u0430",
    "\u0394t = 5 \u00b5m, m\u00b2",
    "s\u0131cak, na\u00efve, d\u00e9j\u00e0 vu",
    "2010\u20132020 \u2014 and so on \u2026",
    "\u65e5\u672c\u8a9e test",
)
INVISIBLE = (
    "rm \u200dx",
    "rm\ufe0f x",
    "a\u3164b",
    "x\u2800y",
    "\u00e9\u200dx",
    "a\u034fb",
    "a\u00a0b",
    "a\u2028b",
    "a\rb",
)
VISIBLE = ("\u0645\u06cc\u200c\u062e\u0648", "\U0001f468\u200d\U0001f469", "1\ufe0f\u20e3", "\u2764\ufe0f")


@pytest.mark.parametrize("text", SHOWN)
def test_a_letter_that_looks_like_another_is_shown_by_its_number(text: str) -> None:
    assert escape_lookalikes(text) == SHOWN[text]


@pytest.mark.parametrize("text", AS_IT_IS)
def test_what_people_write_stays(text: str) -> None:
    assert escape_lookalikes(text) == text


@pytest.mark.parametrize("text", INVISIBLE)
def test_what_shows_nothing_is_shown_by_its_number(text: str) -> None:
    assert "\\" in escape_invisible(text)


@pytest.mark.parametrize("text", VISIBLE)
def test_joiners_and_selectors_of_scripts_and_pictures_stay(text: str) -> None:
    assert escape_invisible(text) == text
