"""Texts that are made to keep a bot busy."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from frontends.text import code_block, discord_text, escape, split_discord, split_telegram, telegram_text

SIZE = 200_000
UNITS = [
    *(
        "[",
        "[a](",
        "![",
        "](",
        "[]",
        "`",
        "`a",
        "```\n",
        "~~~a\n",
        ">",
        "> ",
        "> \n",
        "*a",
        "**",
        "_*",
        "~~",
        "- ",
        "1. ",
        "<",
        "<a:",
    ),
    *(
        "|",
        "|a",
        "|-",
        "a|a\n-|-\n",
        "|\n",
        "\\",
        "&",
        "&#1;",
        "\n",
        " ",
        "\t",
        "\r",
        "e\u0301",
        "\u0301",
        "🇩🇪",
        "👨\u200d",
        "\u202e",
    ),
    *(
        "http://",
        "http://a.b/",
        "@a ",
        "/a ",
        "[x](((",
        "word ",
        "w",
        "> - ",
        "- > ",
        "# ",
        "= \n",
        "\ud800",
        "discord.gg/",
    ),
]
"""Most take less than a third of a second. If any part of it grew with the square of the text, it would be minutes."""


@pytest.mark.slow  # measures time
@pytest.mark.parametrize("unit", UNITS)
def test_a_long_text_takes_little_time(unit: str) -> None:
    text = unit * (SIZE // len(unit))
    began = time.process_time()
    telegram, discord = split_telegram(text), split_discord(text)
    for message in (*telegram[:2], *telegram[-1:], text):
        telegram_text(message)
    for message in (*discord[:2], *discord[-1:], text):
        discord_text(message)
    assert time.process_time() - began < 5


@pytest.mark.slow  # measures time
@pytest.mark.parametrize("rows", ["|\n", "|a\n", "x\n"])
def test_a_table_with_many_empty_cells_takes_little_time(rows: str) -> None:
    began = time.process_time()
    telegram_text("|a" * 200 + "\n" + "|-" * 200 + "\n" + rows * 1500)
    assert time.process_time() - began < 2


@pytest.mark.parametrize("depth", [10, 30, 100, 1000, 2000])
@pytest.mark.parametrize("unit", ["> ", "- ", ">", "1. ", "[", "**a ", "*a **b "])
def test_what_is_nested_too_deeply_is_text(unit: str, depth: int) -> None:
    assert "word" in telegram_text(unit * (depth // len(unit)) + "word").text
    assert "word" in discord_text(unit * (depth // len(unit) // 3) + "word")


@pytest.mark.slow  # measures time
@pytest.mark.parametrize("unit", ['{"a":', "[", '["\\n",', "`", "😀", "\u202e"])
def test_arguments_take_little_time(unit: str) -> None:
    began = time.process_time()
    assert len(code_block(unit * (SIZE // len(unit)))) < 3000
    escape(unit * (SIZE // len(unit)))
    assert time.process_time() - began < 5


def test_the_package_is_small_in_memory() -> None:
    """Bots have little memory, and share it with two large libraries."""
    code = (
        "import asyncio, logging, ssl, httpx, agent_client, pydantic, agent_common.json_reader\n"
        "def kilobytes(): return int(open('/proc/self/statm').read().split()[1]) * 4\n"
        "before = kilobytes()\n"
        "import frontends.text\n"
        "frontends.text.telegram_text('*a* | `b`'), frontends.text.split_discord('a')\n"
        "print(kilobytes() - before)"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert int(printed) < 4 * 1024
