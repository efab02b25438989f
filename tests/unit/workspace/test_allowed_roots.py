from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import ToolFailure
from agent_runtime.workspace import AllowedRoots


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> AllowedRoots:
    """A workspace full of ways out of it."""
    top = tmp_path_factory.mktemp("roots").resolve()
    workspace, scratch, outside = top / "workspace", top / "scratch", top / "outside"
    for folder in (workspace / "a" / "b", scratch, outside):
        folder.mkdir(parents=True)
    (outside / "secret").write_text("secret")
    (workspace / "out").symlink_to(outside)
    (workspace / "up").symlink_to("..")
    (workspace / "a" / "back").symlink_to(workspace)
    (workspace / "a" / "loop").symlink_to("loop")
    (workspace / "a" / "chain").symlink_to("../out/secret")
    (scratch / "home").symlink_to(workspace / "a")
    return AllowedRoots(workspace, scratch)


def test_relative_paths_start_in_the_workspace(roots: AllowedRoots) -> None:
    place = roots.resolve("a/../a/b/new.txt")
    assert (place.path, place.shown) == (roots.workspace / "a" / "b" / "new.txt", "a/b/new.txt")


def test_absolute_paths_inside_are_fine(roots: AllowedRoots) -> None:
    assert roots.resolve(f"{roots.workspace}/a").shown == "a"
    assert roots.resolve(f"{roots.scratch}/x").shown == f"{roots.scratch}/x"


def test_links_that_stay_inside_are_followed(roots: AllowedRoots) -> None:
    assert roots.resolve("a/back/a/b").path == roots.workspace / "a" / "b"
    assert roots.resolve(f"{roots.scratch}/home/b").path == roots.workspace / "a" / "b"


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../outside/secret", "/etc/passwd", "out", "out/secret", "up/outside", "a/chain", "a/back/../../x"),
        *("../workspace-2", "/", "~/x/../../..", "a/back/up/outside/secret"),
    ],
)
def test_paths_that_lead_outside_are_refused_with_what_is_allowed(roots: AllowedRoots, path: str) -> None:
    with pytest.raises(ToolFailure, match="outside the folders you may use") as caught:
        roots.resolve(path)
    assert caught.value.kind == "denied"
    assert str(roots.workspace) in caught.value.message
    assert str(roots.scratch) in caught.value.message


@pytest.mark.parametrize("path", ["", "a\0b"])
def test_what_is_no_path_is_refused(roots: AllowedRoots, path: str) -> None:
    with pytest.raises(ToolFailure, match="path: must be a file name"):
        roots.resolve(path)


@pytest.mark.parametrize("path", ["\ud800", "a/loop", "a/loop/x", "a" * 5000, "\u00e9" * 3000])
def test_what_the_system_cannot_open_is_refused(roots: AllowedRoots, path: str) -> None:
    with pytest.raises(ToolFailure, match=r"^path: .*(cannot be resolved|not be longer than 4096 bytes)") as caught:
        roots.resolve(path)
    assert caught.value.kind == "invalid"


def test_a_chain_of_links_without_end_is_refused(roots: AllowedRoots) -> None:
    for number in range(1500):
        (roots.workspace / f"link{number}").symlink_to(f"link{number + 1}")
    with pytest.raises(ToolFailure, match="cannot be resolved"):
        roots.resolve("link0")


def long_path(workspace: Path) -> str:
    return "a/" * 200_000 + "a"


def links_through_each_other(workspace: Path) -> str:
    for number in range(400):
        (workspace / f"to{number}").symlink_to("x/../" * 800 + ".")
    (workspace / "all").symlink_to("/".join(f"to{number}" for number in range(400)))
    return "all/f"


def names_that_nearly_read_the_same(workspace: Path) -> str:
    folder = workspace / "many"
    folder.mkdir()
    (folder / "l\u2019").symlink_to(".")
    for number in range(5000):
        (folder / ("\u00e9" * 100 + str(number))).touch()
    return "many/" + "l'/" * 30 + "n\u2019"


@pytest.mark.parametrize("made", [long_path, links_through_each_other, names_that_nearly_read_the_same])
def test_no_path_takes_long_to_resolve(tmp_path: Path, made: Callable[[Path], str]) -> None:
    own = AllowedRoots(tmp_path.resolve(), tmp_path.resolve())
    path = made(tmp_path)
    began = time.process_time()
    try:
        own.resolve(path)
    except ToolFailure as failure:
        assert len(failure.message) < 1000  # noqa: PT017  one of them may be resolved
    assert time.process_time() - began < 0.5, "it takes seconds without bounds"


segments = st.sampled_from(
    ["..", ".", "a", "b", "out", "up", "back", "loop", "chain", "home", "secret", "new", "~", ""]
)


@given(st.lists(segments, max_size=8), st.booleans())
def test_whatever_is_asked_for_what_comes_back_is_inside_and_free_of_links(
    roots: AllowedRoots, parts: list[str], absolute: bool
) -> None:
    path = ("/" if absolute else "") + "/".join(parts)
    try:
        place = roots.resolve(path)
    except ToolFailure:
        return
    assert place.path == Path(os.path.realpath(roots.workspace / path))
    assert place.path.is_relative_to(place.root)
    assert place.root in (roots.workspace, roots.scratch)


@given(st.text(min_size=1, max_size=300))
def test_any_text_is_either_inside_or_refused(roots: AllowedRoots, path: str) -> None:
    try:
        place = roots.resolve(path)
    except ToolFailure:
        return
    assert place.path.is_relative_to(place.root)
