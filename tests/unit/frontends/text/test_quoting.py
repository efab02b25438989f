"""Names and arguments of others within texts of our own."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.text import code_block, discord_text, escape, telegram_text
from frontends.text.characters import WORD_JOINER, utf16_length


@given(st.text())
def test_an_escaped_text_is_shown_as_it_is(text: str) -> None:
    message = telegram_text(f"a {escape(text)} b")
    assert all(entity.type == "text_link" and entity.url for entity in message.entities)
    assert re.sub(f"{WORD_JOINER}|(?<=[^ -~])[\u200c\u200d]", "", message.text).isprintable()


@pytest.mark.parametrize(
    "name", ["**b**", "a\n# b", "`c`", "[x](https://a.de)", "1. x", "> x", "\\*", "&amp;", "~~~", "|a|\n|-|"]
)
def test_a_name_has_no_markup(name: str) -> None:
    message = telegram_text(escape(name))
    assert message.text.replace(WORD_JOINER, "") == " ".join(name.split())
    assert [entity for entity in message.entities if entity.type != "text_link"] == []


def test_what_is_invisible_in_a_name_shows() -> None:
    assert telegram_text(escape("a\u202eb\u200bc\u200d")).text == "a\\u202eb\\u200bc\\u200d"


def test_arguments_are_shown_in_lines() -> None:
    block = code_block('{"command":"rm -rf /","name":"漢字","list":[1]}')
    assert block == '```json\n{\n  "command": "rm -rf /",\n  "name": "漢字",\n  "list": [\n    1\n  ]\n}\n```'


@pytest.mark.parametrize("text", ['{"a": 1, "a": 2}', '{"a": 1e999}', "[" * 100_000, "{nothing", "plain"])
def test_what_is_no_clear_json_is_shown_as_it_is(text: str) -> None:
    assert code_block(text, "sh", limit=200_000) == f"```sh\n{text}\n```"


def test_who_approves_sees_what_is_invisible() -> None:
    block = code_block('{"command": "ls \\u202e \\u200b\\u3164"}')
    assert "ls \\u202e \\u200b\\u3164" in telegram_text(block).text
    assert "a\\x0db" in discord_text(code_block("a\rb"))


@pytest.mark.parametrize("character", ["x", "😀", "👨\u200d👩 "])
def test_the_middle_of_a_long_text_is_left_out(character: str) -> None:
    text = "begin " + character * 5000 + " end"
    message = telegram_text(code_block(text, limit=1200)).text
    head, note, tail = message.split("\n")
    assert utf16_length(message) <= 1200
    assert text.startswith(head)
    assert text.endswith(tail)
    assert note == f"… {len(text) - len(head) - len(tail):,} characters left out …"


@pytest.mark.parametrize("text", ["```\n# out", "````", "a\n```\nb\n`````\n", "~~~"])
def test_nothing_breaks_out_of_a_block(text: str) -> None:
    message = telegram_text(code_block(text))
    assert message.text == text.strip("\n")
    assert [entity.type for entity in message.entities] == ["pre"]
