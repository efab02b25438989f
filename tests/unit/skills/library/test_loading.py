"""What a session loads stays what it was, and its files are where the agent can reach them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agent_runtime.errors import ToolFailure
from agent_runtime.ports import ToolContext
from agent_runtime.skills import SkillLibrary
from agent_runtime.skills.library import files, library

from .shelves import Ground, package, write


async def test_a_body_is_the_same_for_the_whole_session(ground: Ground) -> None:
    at = package(ground.project, "pdf", body="One.")
    session = ground.context()
    assert (await ground.library.load("pdf", session)).body == "One."
    (at / "SKILL.md").write_text("---\nname: pdf\ndescription: x\n---\nTwo.\n")
    assert (await ground.library.load("pdf", session)).body == "One."
    assert (await ground.library.load("pdf", ground.context("ses_2"))).body == "Two."
    (at / "SKILL.md").unlink()
    assert (await ground.library.load("pdf", session)).body == "One."
    with pytest.raises(ToolFailure, match="was there when this session began, and is gone"):
        await ground.library.load("pdf", ground.context("ses_3", pdf="project:.agents/skills"))


async def test_a_package_is_taken_from_where_it_was(ground: Ground) -> None:
    package(ground.user, "deploy", body="The user's.")
    session = ground.context()
    package(ground.project, "deploy", body="Put there by a command.")
    assert (await ground.library.load("deploy", session)).body == "The user's."
    assert (await ground.library.load("deploy", ground.context("ses_2"))).body == "Put there by a command."


async def test_files_in_the_workspace_stay_there(ground: Ground) -> None:
    at = package(ground.project, "pdf", scripts__run_sh="echo", references__a_md="a")
    found = await ground.library.load("pdf", ground.context())
    assert (found.folder, found.files, found.omitted_files) == (str(at), ("references/a.md", "scripts/run.sh"), 0)
    assert list(ground.scratch.iterdir()) == []


async def test_without_files_there_is_no_folder(ground: Ground) -> None:
    package(ground.user, "pdf")
    found = await ground.library.load("pdf", ground.context())
    assert (found.folder, found.files) == ("", ())
    assert list(ground.scratch.iterdir()) == []


async def test_other_files_are_copied_to_where_commands_see_them(ground: Ground) -> None:
    at = package(ground.user, "pdf", scripts__run_sh="echo", _git__config="x", __pycache____a_pyc="x")
    (at / "scripts" / "run.sh").chmod(0o4755)
    (at / "stolen").symlink_to("/etc/passwd")
    os.mkfifo(at / "pipe")
    found = await ground.library.load("pdf", ground.context())
    copied = ground.copies("pdf")
    assert (found.folder, found.files, found.omitted_files, found.note) == (str(copied), ("scripts/run.sh",), 2, "")
    assert sorted(str(path.relative_to(copied)) for path in copied.rglob("*") if path.is_file()) == [
        "SKILL.md",
        "scripts/run.sh",
    ]
    assert stat.S_IMODE((copied / "scripts" / "run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((copied / "SKILL.md").stat().st_mode) == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
async def test_copies_belong_to_whom_commands_run_as(ground: Ground) -> None:
    os.chown(ground.scratch, 61000, 61000)
    package(ground.user, "pdf", scripts__run_sh="echo")
    await ground.library.load("pdf", ground.context())
    assert {path.stat().st_uid for path in ground.scratch.rglob("*")} == {61000}


async def test_copies_come_back_when_they_are_gone_and_in_a_new_life(ground: Ground) -> None:
    at = package(ground.user, "pdf", a_txt="one")
    session = ground.context()
    copied = ground.copies("pdf")
    assert (await ground.library.load("pdf", session)).folder == str(copied)
    (copied / "a.txt").write_text("changed by the agent")
    await ground.library.load("pdf", session)
    assert (copied / "a.txt").read_text() == "changed by the agent"
    copied.rename(ground.scratch / "elsewhere")
    await ground.library.load("pdf", session)
    assert (copied / "a.txt").read_text() == "one"
    (at / "a.txt").write_text("two")
    ground.library = SkillLibrary(ground.workspace, ground.home)
    await ground.library.load("pdf", session)
    assert (copied / "a.txt").read_text() == "two"
    copied.rename(ground.scratch / "again")
    (at / "a.txt").unlink()
    assert (await ground.library.load("pdf", session)).note == "1 of its files are gone"


@pytest.mark.parametrize("trap", ["skills", "skills/pdf", "skills/pdf/a.txt", "skills/pdf/dir"])
async def test_no_trap_in_the_scratch_folder_is_stepped_into(ground: Ground, trap: str) -> None:
    package(ground.user, "pdf", a_txt="mine", dir__b_txt="mine")
    outside = ground.scratch.parent / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("theirs")
    at = ground.scratch / trap
    at.parent.mkdir(parents=True, exist_ok=True)
    at.symlink_to(outside / "a.txt" if trap.endswith(".txt") else outside)
    found = await ground.library.load("pdf", ground.context())
    assert found.body == "Do it."
    assert "not all of its files could be put there" in found.note
    assert [path.name for path in outside.iterdir()] == ["a.txt"]
    assert (outside / "a.txt").read_text() == "theirs"


async def test_a_file_in_the_way_is_told(ground: Ground) -> None:
    package(ground.user, "pdf", a_txt="mine")
    (ground.scratch / "skills" / "pdf" / "a.txt").mkdir(parents=True)
    assert "a.txt" in (await ground.library.load("pdf", ground.context())).note


async def test_a_full_scratch_folder_is_told(ground: Ground) -> None:
    package(ground.user, "pdf", a_txt="mine")

    async def admit(path: Path, size: int, context: ToolContext) -> None:
        assert path == ground.scratch / "skills" / "pdf"
        raise ToolFailure(f"no room for {size} bytes")

    ground.library = SkillLibrary(ground.workspace, ground.home, require_space=admit)
    found = await ground.library.load("pdf", ground.context())
    assert "no room for " in found.note
    assert found.body == "Do it."


async def test_a_package_may_not_be_endless(ground: Ground) -> None:
    at = package(ground.user, "big", zz_txt="small")
    with (at / "sparse").open("wb") as file:
        file.truncate(2**31)
    for number in range(files.MAX_FILES + 10):
        (at / f"f{number}").touch()
    deep = at / "/".join(["d"] * 20)
    deep.mkdir(parents=True)
    (deep / "x").touch()
    found = await ground.library.load("big", ground.context())
    copied = [path for path in ground.copies("big").rglob("*") if path.is_file()]
    assert len(copied) <= files.MAX_FILES
    assert "sparse" not in {path.name for path in copied}
    assert len(found.files) == library.MAX_LISTED
    assert found.omitted_files >= files.MAX_FILES - library.MAX_LISTED + 10


async def test_names_that_cannot_be_shown_are_not(ground: Ground) -> None:
    at = package(ground.project, "pdf", good_txt="x")
    for name in (b"a\nb", b"\xff", "a\u202eb".encode()):
        write(at, name)
    found = await ground.library.load("pdf", ground.context())
    assert (found.files, found.omitted_files) == (("good.txt",), 3)


async def test_what_is_remembered_is_bounded(ground: Ground) -> None:
    at = package(ground.project, "pdf", body="x" * 200_000)
    held = library.MAX_CACHED_LENGTH // 200_000
    for number in range(held + 10):
        await ground.library.load("pdf", ground.context(f"ses_{number}"))
    (at / "SKILL.md").write_text("---\nname: pdf\ndescription: x\n---\nTwo.\n")
    assert (await ground.library.load("pdf", ground.context(f"ses_{held + 9}"))).body != "Two."
    assert (await ground.library.load("pdf", ground.context("ses_0"))).body == "Two.", "what was forgotten is read anew"


async def test_the_packages_own_page_is_loaded_whole(ground: Ground) -> None:
    found = await ground.library.load("write-a-skill", ground.context())
    assert found.body.startswith("# Write a skill")
    assert (found.folder, found.omitted_files) == ("", 0)
