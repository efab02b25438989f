from __future__ import annotations

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


def test_a_chain_of_links_without_end_is_refused(roots: AllowedRoots) -> None:
    for number in range(1500):
        (roots.workspace / f"link{number}").symlink_to(f"link{number + 1}")
    with pytest.raises(ToolFailure, match="cannot be resolved"):
        roots.resolve("link0")


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
    assert place.path.is_relative_to(place.root)
    assert place.root in (roots.workspace, roots.scratch)
    # A loop of links is the one thing that stays a link: it cannot be opened.
    assert place.path.name == "loop" or "loop" in place.path.parts or place.path.resolve() == place.path


@given(st.text(min_size=1, max_size=300))
def test_any_text_is_either_inside_or_refused(roots: AllowedRoots, path: str) -> None:
    try:
        place = roots.resolve(path)
    except ToolFailure:
        return
    assert place.path.is_relative_to(place.root)
