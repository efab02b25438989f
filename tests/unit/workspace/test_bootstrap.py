from __future__ import annotations

from pathlib import Path

import pytest

from agent_runtime.workspace import Home, bootstrap


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    home.prepare()
    return home


def test_missing_and_empty_files_are_absent(home: Home) -> None:
    (home.workspace / "SOUL.md").write_text("  \n")
    (home.workspace / "USER.md").write_text("Ada")
    assert [(file.name, file.text, file.truncated) for file in bootstrap(home)] == [("USER.md", "Ada", False)]


def test_files_come_in_the_order_of_the_prompt(home: Home) -> None:
    for name in ("MEMORY.md", "USER.md", "SOUL.md", "AGENTS.md"):
        (home.workspace / name).write_text(name)
    assert [file.name for file in bootstrap(home)] == ["AGENTS.md", "SOUL.md", "USER.md", "MEMORY.md"]


@pytest.mark.parametrize(
    ("name", "cap"), [("AGENTS.md", 12_000), ("SOUL.md", 4_000), ("USER.md", 4_000), ("MEMORY.md", 16_000)]
)
def test_a_file_is_cut_at_its_cap_in_characters_and_says_so(home: Home, name: str, cap: int) -> None:
    (home.workspace / name).write_text("\N{ROCKET}" * cap)
    assert bootstrap(home)[0].text == "\N{ROCKET}" * cap
    (home.workspace / name).write_text("\N{ROCKET}" * (cap + 1))
    (file,) = bootstrap(home)
    assert file.truncated
    assert file.text == "\N{ROCKET}" * cap + f"\n[{name} is cut here: only its first {cap} characters are shown]"


def test_bytes_that_are_not_utf8_are_replaced(home: Home) -> None:
    (home.workspace / "USER.md").write_bytes(b"\xef\xbb\xbfna\xefve")
    assert bootstrap(home)[0].text == "na\N{REPLACEMENT CHARACTER}ve"


def test_links_and_folders_are_not_read(home: Home, tmp_path: Path) -> None:
    """A command can put a link here, and the server may be root."""
    (tmp_path / "secret").write_text("secret")
    (home.workspace / "USER.md").symlink_to(tmp_path / "secret")
    (home.workspace / "SOUL.md").mkdir()
    assert bootstrap(home) == ()
