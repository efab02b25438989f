"""Whose files are whose: no path of one principal leads to another's."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import ToolFailure
from agent_runtime.workspace import (
    OPERATOR,
    Home,
    make_personal_folder,
    personal_folder,
    read_bootstrap_files,
    resolve_for_principal,
)

HOME = Home(Path("/nowhere/data"))
NAMES = ["operator", "Operator", "alice", "..", "/", "a/b"]
principals = st.one_of(st.text(min_size=1, max_size=40), st.sampled_from(NAMES))
WORDS = ["USER.md", "memory", "..", ".", "", "people", "workspace", ".backups", ".agents", "notes", "user.md", "\0"]
words = st.sampled_from(WORDS)
paths = st.one_of(st.lists(words, min_size=1, max_size=6).map("/".join), st.text(max_size=40))


def leads(principal: str, path: str) -> Path | None:
    try:
        return resolve_for_principal(HOME, principal, path).path
    except ToolFailure:
        return None


def own(principal: str) -> list[Path]:
    """Where the files lie that are a principal's alone."""
    root = personal_folder(HOME, principal)
    names = ("USER.md", "memory", ".backups/USER.md", ".backups/memory")
    return [root / name for name in names]


def within(path: Path, roots: list[Path]) -> bool:
    return any(path == root or path.is_relative_to(root) for root in roots)


@given(principals, principals, paths)
def test_no_path_of_one_principal_leads_to_anothers(one: str, other: str, path: str) -> None:
    found = leads(one, path)
    if found is None or one == other:
        return
    assert not within(found, own(other))


@given(principals, paths)
def test_a_path_leads_into_the_workspace_or_to_ones_own(principal: str, path: str) -> None:
    found = leads(principal, path)
    if found is None:
        return
    assert ".." not in found.parts
    assert found.is_relative_to(HOME.workspace) or within(found, own(principal))
    assert found.as_posix().endswith(path), "one spelling for each file"


@given(st.lists(principals, min_size=2, max_size=5, unique=True))
def test_no_two_share_a_folder(names: list[str]) -> None:
    folders = [personal_folder(HOME, name) for name in names]
    assert len(set(folders)) == len(names)
    for name, folder in zip(names, folders, strict=True):
        assert (folder == HOME.workspace) == (name == OPERATOR)
        assert folder == HOME.workspace or folder.parent == HOME.data_dir / "people"


ODD = ["/etc/passwd", "//x", "a//b", "a/", "./a", "a/.", "..", "a/../b", "a\0b", "a\ufffdb", "x" * 5000]


@pytest.mark.parametrize("path", ODD)
def test_paths_with_another_spelling_are_refused(path: str) -> None:
    with pytest.raises(ToolFailure, match=r"^path: ") as caught:
        resolve_for_principal(HOME, "operator", path)
    assert caught.value.kind == "invalid"


def test_a_folder_of_ones_own_is_for_the_server_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.prepare()
    assert make_personal_folder(home, OPERATOR) == home.workspace
    folder = make_personal_folder(home, "alice")
    assert make_personal_folder(home, "alice") == folder
    assert folder == home.data_dir / "people" / "2bd806c97f0e00af1a1fc3328fa763a9", "as sha256sum says it"
    assert {one.stat().st_mode & 0o777 for one in (folder, folder.parent)} == {0o700}
    assert not folder.is_relative_to(home.workspace)


def test_each_session_is_told_who_its_own_user_is(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.prepare()
    (home.workspace / "SOUL.md").write_text("Calm.")
    (home.workspace / "USER.md").write_text("Ada")
    (make_personal_folder(home, "alice") / "USER.md").write_text("Alice")

    def told(principal: str) -> list[str]:
        return [file.text for file in read_bootstrap_files(home, principal)]

    assert told(OPERATOR) == ["Calm.", "Ada"]
    assert told("alice") == ["Calm.", "Alice"]
    assert told("bob") == ["Calm."]
