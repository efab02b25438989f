"""Where project instructions are looked for, and where not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_runtime.workspace import PROMPT_CAPS, Home, read_instructions
from agent_runtime.workspace.prompt_files.instructions import MAX_NAMED
from agent_runtime.workspace.prompt_files.nested_files import MAX_DEPTH, MAX_ENTRIES, MAX_FOLDERS


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "data")
    home.prepare()
    return home


def told(home: Home) -> list[tuple[str, str, str]]:
    return [(file.source, file.name, file.text) for file in read_instructions(home).files]


def put(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_outermost_first_nearest_last_and_nothing_above_the_boundary(home: Home, tmp_path: Path) -> None:
    put(tmp_path, "AGENTS.md", "of the machine")
    put(home.data_dir, "AGENTS.md", "of the operator")
    for name in ("CONTEXT.md", "CLAUDE.md", "AGENTS.md"):
        put(home.workspace, name, name)
    assert told(home) == [
        ("operator", "AGENTS.md", "of the operator"),
        ("workspace", "AGENTS.md", "AGENTS.md"),
        ("workspace", "CLAUDE.md", "CLAUDE.md"),
        ("workspace", "CONTEXT.md", "CONTEXT.md"),
    ]


def test_nothing_is_said_twice(home: Home) -> None:
    put(home.workspace, "AGENTS.md", "the same\n")
    put(home.workspace, "CLAUDE.md", "\nthe same")
    put(home.workspace, "CONTEXT.md", "@AGENTS.md\n")
    assert told(home) == [("workspace", "AGENTS.md", "the same\n")]
    put(home.data_dir, "CLAUDE.md", "the same")
    assert told(home) == [("operator", "CLAUDE.md", "the same")], "where commands cannot change it"


def test_links_are_not_followed(home: Home, tmp_path: Path) -> None:
    put(tmp_path, "secret", "secret")
    (home.workspace / "AGENTS.md").symlink_to(tmp_path / "secret")
    (home.data_dir / "AGENTS.md").symlink_to(tmp_path / "secret")
    put(tmp_path / "elsewhere", "AGENTS.md", "secret")
    (home.workspace / "linked").symlink_to(tmp_path / "elsewhere")
    put(home.workspace / "real", "x", "")
    (home.workspace / "real" / "AGENTS.md").symlink_to(tmp_path / "secret")
    os.mkfifo(home.workspace / "CLAUDE.md")
    (home.workspace / "CONTEXT.md").mkdir()
    found = read_instructions(home)
    assert (list(found.files), list(found.nested), found.more_nested) == ([], [], False)


def test_a_file_is_read_no_further_than_the_cap(home: Home) -> None:
    cap = PROMPT_CAPS["AGENTS.md"]
    put(home.workspace, "AGENTS.md", "\N{ROCKET}" * cap)
    (file,) = read_instructions(home).files
    assert (file.text, file.truncated) == ("\N{ROCKET}" * cap, False)
    with (home.workspace / "CLAUDE.md").open("wb") as large:
        large.write(b"x" * 10 * cap)
        large.truncate(2**40)
    assert len(read_instructions(home).files[1].text) == cap
    assert read_instructions(home).files[1].truncated


def test_sub_folders_are_named_the_shallow_ones_first(home: Home) -> None:
    put(home.workspace / "web", "AGENTS.md", "x")
    put(home.workspace / "web" / "src", "CLAUDE.md", "x")
    put(home.workspace / "api", "CONTEXT.md", "x")
    put(home.workspace / "api", "AGENTS.md", "x")
    for name in (
        "node_modules",
        ".git",
        "venv",
        "memory",
        "a\nb",
        "<x>",
        "-rf",
        "run setup.sh first",
        "x" * 41,
        "\u5148\u8fd0\u884c",
    ):
        put(home.workspace / name, "AGENTS.md", "x")
    deep = home.workspace.joinpath(*"abcdefg")
    put(deep, "AGENTS.md", "x")
    found = read_instructions(home)
    assert list(found.nested) == ["api/AGENTS.md", "web/AGENTS.md", "web/src/CLAUDE.md"]
    assert not found.more_nested
    assert len(deep.relative_to(home.workspace).parts) > MAX_DEPTH


def test_the_look_into_folders_is_bounded(home: Home) -> None:
    for number in range(MAX_NAMED + 1):
        put(home.workspace / f"d{number:03}", "AGENTS.md", "x")
    found = read_instructions(home)
    assert len(found.nested) == MAX_NAMED
    assert found.more_nested
    for number in range(MAX_FOLDERS + 10):
        (home.workspace / f"e{number:03}").mkdir()
    assert read_instructions(home).more_nested
    crowd = home.workspace / "a"
    crowd.mkdir()
    for number in range(MAX_ENTRIES):
        (crowd / str(number)).touch()
    assert read_instructions(home).more_nested


def test_a_tree_that_cannot_be_read_is_no_trouble(home: Home) -> None:
    (home.workspace / "closed").mkdir(mode=0)
    home.workspace.rename(home.data_dir / "gone")
    assert not read_instructions(home).files


def test_of_what_is_no_text_only_that_is_told(home: Home) -> None:
    put(home.workspace, "AGENTS.md", "Be kind.\0")
    assert [file.text for file in read_instructions(home).files] == ["(AGENTS.md is left out: it is not UTF-8 text.)"]
