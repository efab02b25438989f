"""Text that a model chose so that it is slow to draw holds up neither the keys nor the end of the reply."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import pytest

from agent_client import TextDelta
from agent_client.cli.chat.blocks import MarkdownStream, Paper, Prose, Transcript

from .test_markdown_stream import Printed

SLOW_TO_LEX = {
    "html": "<!--",
    "csharp": "a\n",
    "pug": "<!--",
    "java": " _",
    "typescript": "?_",
    "python": "\n\t",
    "HTML": "<!--",
    "markdown": "~~~html\n<!--<!--<!--<!--\n",
}


def drawn(language: str, code: str) -> str:
    return Paper(color=True).ansi(Prose(f"```{language}\n{code}\n```"), 80)


def took(work: Callable[[], object]) -> float:
    began = process_time()
    work()
    return process_time() - began


@pytest.mark.parametrize("language", SLOW_TO_LEX)
def test_code_costs_what_its_text_costs(language: str) -> None:
    unit = SLOW_TO_LEX[language]
    code = unit * (6_000 // len(unit))
    for name in (language, "text"):  # imports what it needs
        drawn(name, "x")
    plain = took(lambda: drawn("text", code))
    assert took(lambda: drawn(language, code)) < 3 * plain + 0.5


@pytest.mark.parametrize("language", ["xpp", "mcschema", "easytrieve"])
def test_only_lexers_that_are_known_run(language: str) -> None:
    """These take minutes for two thousand characters."""
    assert drawn(language, "return 1") == drawn("text", "return 1")


def test_pieces_of_code_in_one_block_share_what_is_coloured() -> None:
    fence = "  ```java\n" + "   _ _ _ _\n" * 60 + "  ```\n"
    listed, plain = "- a\n" + fence * 30, "- a\n" + fence.replace("java", "text") * 30
    paper = Paper(color=True)
    assert took(lambda: paper.ansi(Prose(listed), 80)) < 2 * took(lambda: paper.ansi(Prose(plain), 80)) + 0.5


@pytest.mark.parametrize("language", ["python", "py", "PYTHON", "bash", "ts", "json", "java", "python title=x"])
def test_code_of_common_length_is_coloured(language: str) -> None:
    code = '{"x": 1}\n' * 100
    assert drawn(language, code) != drawn("text", code)


@pytest.mark.parametrize("unit", ["<!--", "x", "\n", "[", "a *b* ", "- x\n", "\u65e5", "| a | b |\n"], ids=repr)
def test_what_is_drawn_live_has_a_bound(unit: str) -> None:
    """However long the open block is: it is drawn again in every frame."""
    stream = MarkdownStream()
    stream.feed("Begin:\n\n```html\n" if unit == "<!--" else "Begin:\n\n")
    for _ in range(4):
        stream.feed(unit * (8_000 // len(unit)))
    assert len(stream.open) < 10_000
    assert stream.open.strip().endswith(unit.strip())
    assert took(lambda: [stream.open for _ in range(20)]) < 1


@pytest.mark.parametrize("unit", ["x", "<!-", "\u65e5"])
def test_a_long_line_in_small_pieces_is_not_copied_with_each(unit: str) -> None:
    def feed(count: int) -> None:
        stream = MarkdownStream()
        for _ in range(count):
            stream.feed(unit * 16)
        assert stream.received == count * 16 * len(unit)

    assert took(lambda: feed(40_000)) < 40 * took(lambda: feed(4_000)) + 0.1


@pytest.mark.parametrize("unit", ["[a](", "![[](", "- a\n", "|a|b|\n", "\n"])
def test_a_very_long_block_is_printed_as_it_is(unit: str) -> None:
    text = "| a | b |\n|---|---|\n" + unit * (34_000 // len(unit))
    printed = Printed(80)
    transcript = Transcript(printed)
    transcript.event(TextDelta(text + "\nThe end.", 0))
    transcript.end()
    assert "The end." in printed.plain
    assert "".join(printed.plain.split()).count("".join(unit.split())) >= 34_000 // len(unit) - 1 or unit == "\n"
