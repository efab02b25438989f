"""A file that is mounted into the workspace, written by a model's tools and by people over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_testing import ScriptedProvider
from tests.unit.workspace.test_mount_points import LAYOUTS

from ..live import SERVE, Runtime, assert_problem
from ..mounts import mounted, needs_mounts
from .test_odd_files import call

NAME = "shared/notes.md"


@needs_mounts
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_mounted_file_is_written_in_place_or_the_reason_told(
    provider: ScriptedProvider, tmp_path: Path, layout: str
) -> None:
    inside, outside = tmp_path / "data" / "workspace" / "shared", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir(parents=True)
        (folder / "notes.md").write_text("as it was")
    notes = outside / "notes.md"
    agent = Runtime(provider, tmp_path / "data")
    agent.command = [*mounted(*(one.format(root=inside, outside=outside) for one in LAYOUTS[layout])), *SERVE]
    with agent:
        assert call(agent, "read", path=NAME)["content"] == "as it was"
        if layout == "a file that is read-only":
            assert "Read-only file system" in call(agent, "write", path=NAME, content="new")
            assert "Read-only file system" in call(agent, "edit", path=NAME, old_string="as it", new_string="so it")
            assert_problem(agent.http.put(f"/workspace/{NAME}", content=b"new"), 403, "forbidden")
            assert notes.read_text() == "as it was"
        else:
            call(agent, "write", path=NAME, content="one two three, which is longer\n")
            assert notes.read_text() == "one two three, which is longer\n"
            call(agent, "edit", path=NAME, old_string=" three, which is longer", new_string="")
            assert notes.read_text() == "one two\n"
            assert agent.http.put(f"/workspace/{NAME}", content=b"by a person").status_code in (200, 204)
            assert notes.read_text() == "by a person"
            assert agent.http.delete(f"/workspace/{NAME}").status_code in (403, 409)
        assert agent.get(f"/workspace/{NAME}").text == notes.read_text()
    assert (inside / "notes.md").read_text() == "as it was", "what the mount hides"


@needs_mounts
def test_a_read_only_file_in_a_folder_of_the_user_closes_no_other(provider: ScriptedProvider, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for name in ("notes.md", "other.md", "before.md"):
        (theirs / name).write_text("as it was\n")
    agent = Runtime(provider, tmp_path / "data", AGENT_WORKSPACE_DIR=theirs)
    agent.command = [*mounted("--ro-bind", str(theirs / "notes.md"), str(theirs / "notes.md")), *SERVE]
    with agent:
        command = "for name in before notes other; do echo new >> $name.md; done; cat *.md"
        found = call(agent, "bash", command=command)
    assert [(theirs / f"{name}.md").read_text() for name in ("before", "notes", "other")] == [
        "as it was\nnew\n",
        "as it was\n",
        "as it was\nnew\n",
    ], found
