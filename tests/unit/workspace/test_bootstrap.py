from __future__ import annotations

import random
from pathlib import Path

import pytest

from agent_runtime.workspace import PROMPT_CAPS, Home, read_bootstrap_files


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.prepare()
    return home


def test_missing_and_empty_files_are_absent(home: Home) -> None:
    (home.workspace / "SOUL.md").write_text("  \n")
    (home.workspace / "USER.md").write_text("Ada")
    assert [(file.name, file.text, file.truncated) for file in read_bootstrap_files(home)] == [
        ("USER.md", "Ada", False)
    ]


def test_files_come_in_the_order_of_the_prompt(home: Home) -> None:
    for name in ("MEMORY.md", "USER.md", "SOUL.md", "AGENTS.md"):
        (home.workspace / name).write_text(name)
    assert [file.name for file in read_bootstrap_files(home)] == ["SOUL.md", "USER.md", "MEMORY.md"]


@pytest.mark.parametrize("name", ["SOUL.md", "USER.md"])
def test_of_a_long_file_the_beginning_is_read(home: Home, name: str) -> None:
    cap = PROMPT_CAPS[name]
    (home.workspace / name).write_text("\N{ROCKET}" * cap)
    assert [(file.text, file.truncated) for file in read_bootstrap_files(home)] == [("\N{ROCKET}" * cap, False)]
    (home.workspace / name).write_text("\N{ROCKET}" * (cap + 1))
    assert [(file.text, file.truncated) for file in read_bootstrap_files(home)] == [("\N{ROCKET}" * cap, True)]


def test_of_memory_the_last_lines_are_read(home: Home) -> None:
    cap = PROMPT_CAPS["MEMORY.md"]
    file = home.workspace / "MEMORY.md"
    file.write_text("é" * cap)
    assert [(one.text, one.truncated) for one in read_bootstrap_files(home)] == [("é" * cap, False)]
    lines = [f"- {number} é\U0001f680" for number in range(50_000)]
    file.write_text("\n".join(lines))
    (memory,) = read_bootstrap_files(home)
    told = memory.text.splitlines()
    assert memory.truncated
    assert told == lines[-len(told) :], "whole lines"
    assert cap - 20 < len(memory.text) <= cap
    file.write_text("x" * (cap * 10))
    assert read_bootstrap_files(home)[0].text == "x" * cap, "one line without an end"


def test_bytes_that_are_not_utf8_are_replaced_and_line_ends_are_one(home: Home) -> None:
    (home.workspace / "USER.md").write_bytes(b"\xef\xbb\xbfna\xefve\r\nx")
    assert read_bootstrap_files(home)[0].text == "na\N{REPLACEMENT CHARACTER}ve\nx"


@pytest.mark.parametrize(
    "data",
    [
        b"Ada\0likes tea",
        "Ada likes tea".encode("utf-16"),
        "Ада любит чай".encode("koi8-r") * 10,
        random.Random(1).randbytes(100_000).replace(b"\0", b""),
        b"\x89PNG\r\n\x1a\n" + random.Random(2).randbytes(200),
    ],
)
@pytest.mark.parametrize("name", ["SOUL.md", "USER.md", "MEMORY.md"])
def test_of_what_is_no_text_only_that_is_told(home: Home, name: str, data: bytes) -> None:
    (home.workspace / name).write_bytes(data)
    (file,) = read_bootstrap_files(home)
    assert (file.name, file.text, file.truncated) == (name, f"({name} is left out: it is not UTF-8 text.)", False)


def test_a_text_with_a_few_broken_places_is_a_text(home: Home) -> None:
    (home.workspace / "USER.md").write_bytes(b"na\xefve and so on\n" * 5 + "\N{REPLACEMENT CHARACTER}".encode() * 100)
    assert read_bootstrap_files(home)[0].text.startswith("na\N{REPLACEMENT CHARACTER}ve and so on")


def test_links_and_folders_are_not_read(home: Home, tmp_path: Path) -> None:
    """A command can put a link here, and the server may be root."""
    (tmp_path / "secret").write_text("secret")
    (home.workspace / "USER.md").symlink_to(tmp_path / "secret")
    (home.workspace / "SOUL.md").mkdir()
    assert read_bootstrap_files(home) == ()
