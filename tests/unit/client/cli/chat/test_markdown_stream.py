"""A reply that comes in pieces is printed as one that comes whole."""

from __future__ import annotations

import re
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import RenderableType

from agent_client import TextDelta, TextReplaced, ToolCall, ToolResult
from agent_client.cli.chat.blocks import POINTER, MarkdownStream, Paper, Prose, Transcript

LINES = st.sampled_from(
    [
        "# Title",
        "plain text",
        "with **bold** and `code`",
        "- one",
        "  - nested",
        "1. first",
        "2. second",
        "```python",
        "def f(): return '日本'",
        "```",
        "~~~",
        "    indented",
        "> quoted",
        "| a | b |",
        "|---|---|",
        "| 1 | 2 |",
        "---",
        "===",
        "[a]: http://x.example",
        "<b>html</b>",
        "\x1b[2J",
        "\\",
        "🙂👩‍👩‍👧",
        " ",
        "",
    ]
)
TEXTS = st.lists(LINES, max_size=14).flatmap(
    lambda lines: st.sampled_from(["\n", "\r\n"]).map(lambda newline: newline.join(lines))
)


class Printed:
    """What would be in the scrollback."""

    def __init__(self, width: int = 40) -> None:
        self.text = ""
        self._width, self._paper = width, Paper(color=False)

    def print(self, block: RenderableType, *, apart: bool = True) -> None:
        self.text += ("\n" if apart else "") + self._paper.ansi(block, self._width)

    @property
    def plain(self) -> str:
        return re.sub(r"\x1b\[[0-9;]*m", "", self.text)


def blocks_of(pieces: list[str]) -> list[str]:
    stream, blocks = MarkdownStream(), list[str]()
    for piece in pieces:
        blocks += stream.feed(piece)
    return [*blocks, *stream.finish()]


@given(TEXTS, st.data())
@example("1. a\n\n1. b", None)
@example("a\r\nb\r\n\r\nc", None)
def test_any_split_into_deltas_prints_the_same(text: str, data: st.DataObject | None) -> None:
    whole = blocks_of([text])
    assert blocks_of(list(text)) == whole
    if data is not None:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
        pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        assert blocks_of(pieces) == whole


@given(TEXTS)
def test_no_character_is_lost_on_the_way(text: str) -> None:
    def words(shown: str) -> list[str]:
        return [line.strip() for line in shown.split("\n") if line.strip()]

    kept = words("\n".join(blocks_of(list(text))))
    assert kept == words(text.replace("\r\n", "\n").replace("\x1b", "\\x1b"))


@given(TEXTS, st.integers(10, 60))
def test_nothing_that_is_printed_drives_the_terminal(text: str, width: int) -> None:
    printed = Printed(width)
    transcript = Transcript(printed)
    for line in text.splitlines(keepends=True):
        transcript.event(TextDelta(line, 0))
        for block in transcript.live():
            assert is_harmless(Paper(color=True).ansi(block, width))
    transcript.end()
    assert is_harmless(printed.text)


def is_harmless(shown: str) -> bool:
    """Whether there are no control characters but line ends and the styles that we write ourselves."""
    return re.sub(r"\x1b\[[0-9;]*m|[\n\u200d]", "", shown).isprintable()


@pytest.mark.parametrize(
    "text",
    [
        "\x1b]52;c;aGk=\x07",
        "\x9b31m",
        "[x](javascript:alert)",
        "[bold]x[/]",
        "<!-- hidden -->",
        "\u202eab",
        "&#8238;",
    ],
)
def test_what_an_agent_writes_to_deceive_is_shown(text: str) -> None:
    shown = Paper(color=False).ansi(Prose("\n".join(blocks_of([text]))), 80)
    assert is_harmless(shown)
    assert "\x1b]" not in shown
    assert len(re.sub(r"\x1b\[[0-9;]*m", "", shown).strip()) >= min(len(text), 6)


def test_finished_blocks_are_printed_and_the_open_one_is_live() -> None:
    printed = Printed()
    transcript = Transcript(printed)
    transcript.event(TextDelta("First.\n\nSec", 0))
    assert printed.plain == ""
    transcript.event(TextDelta("ond\n", 0))
    assert printed.plain == "\n● First.\n"
    assert "Second" in Paper(color=False).ansi(next(iter(transcript.live())), 40)
    transcript.event(TextDelta("More", 1))
    assert printed.plain == "\n● First.\n\n  Second\n"


def test_a_command_beside_a_call_that_runs_takes_nothing_from_its_line() -> None:
    printed = Printed()
    transcript = Transcript(printed)
    transcript.event(ToolCall("1", "bash", {"command": "make"}))
    transcript.command("/cost")
    transcript.block("input 5 tokens")
    transcript.event(ToolResult("1", "bash", {"type": "output", "data": {"exit_code": 0}}))
    assert [line.strip() for line in printed.plain.splitlines() if line] == [
        f"{POINTER}/cost",
        "input 5 tokens",
        "✓ bash make",
    ]


def test_the_ends_of_lines_stay() -> None:
    printed = Printed()
    transcript = Transcript(printed)
    transcript.event(TextDelta("Ada *King*\n1 Garden Street\n\n    __init__.py\n    setup.py\n", 0))
    transcript.end()
    assert printed.plain.split("\n")[1:4] == ["● Ada King", "  1 Garden Street", ""]
    assert [line.strip() for line in printed.plain.split("\n")[4:6]] == ["__init__.py", "setup.py"]


def test_a_text_that_a_restart_has_changed_is_printed_anew() -> None:
    printed = Printed(80)
    transcript = Transcript(printed)
    transcript.event(TextDelta("First.\n\nSecond.\n", 0))
    transcript.event(TextReplaced("First.\n\nOther", 0))
    transcript.end()
    assert printed.plain.count("First.") == 2
    assert "Second" not in printed.plain
    assert "The agent was restarted" in printed.plain
    transcript.event(TextDelta("Unprinted", 1))
    transcript.event(TextReplaced("Unpri", 1))
    transcript.end()
    assert printed.plain.endswith("● Unpri\n")


def test_of_a_long_open_block_the_end_is_shown() -> None:
    stream = MarkdownStream()
    stream.feed("```python\n" + "".join(f"line {number}\n" for number in range(500)))
    lines = stream.open.split("\n")
    assert lines[0] == "```python"
    assert "line 499" in lines
    assert len(lines) < 70


@pytest.mark.slow  # measures time
@pytest.mark.parametrize("line", ["a *b* c\n", "- x\n"])
def test_a_block_that_never_ends_is_not_read_again_at_every_line(line: str) -> None:
    began = process_time()
    assert len(blocks_of([line] * 3000)) == 1
    assert process_time() - began < 20
