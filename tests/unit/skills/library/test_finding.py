"""Where packages are found, which of two holds, and what no folder can do to the server."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from agent_common.protocol import Rule
from agent_common.protocol.authority import Authority, Layer
from agent_runtime.skills import SkillLibrary
from agent_runtime.skills.library import scanner
from agent_runtime.workspace import Home, PromptFileAuthors
from agent_runtime.workspace.prompt_files.package_walk import MAX_ALL_ENTRIES
from agent_testing import ManualClock

from .shelves import Ground, package

BOTH = ("skill", "create_skill")


def test_the_order_is_paths_product_project_user(ground: Ground) -> None:
    folders = [ground.workspace, ground.home]
    for number, folder in enumerate(folders):
        for kind in (".agents", ".claude"):
            package(folder / kind / "skills", "same", f"From {number} {kind}.")
            package(folder / kind / "skills", f"only-{number}-{kind[1:]}")
    package(ground.more, "same", "From more.")
    package(ground.more, "only-more")
    assert list(ground.sources().items()) == [
        ("only-more", f"path:{ground.more}"),
        ("same", f"path:{ground.more}"),
        ("write-a-skill", "bundled"),
        ("only-0-agents", "project:.agents/skills"),
        ("only-0-claude", "project:.claude/skills"),
        ("only-1-agents", "user:.agents/skills"),
        ("only-1-claude", "user:.claude/skills"),
    ]
    assert dict(ground.library.list_packages())["same"] == "From more."


def test_of_two_the_first_holds_and_the_other_is_a_warning(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    package(ground.user, "pdf", "The user's.")
    with caplog.at_level(logging.WARNING):
        ground.library.list_packages()
        assert caplog.text == ""
        package(ground.project, "pdf", "The project's.")
        assert dict(ground.library.list_packages())["pdf"] == "The project's."
        (record,) = caplog.records
        assert record.message == scanner.HIDDEN
        assert str(ground.project / "pdf") in str(record.__dict__["facts"]["reason"])
        caplog.clear()
        ground.library.list_packages()
        assert caplog.text == "", "it is said once"


def test_a_path_of_links_has_an_end(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    """A command can lay thousands: whoever follows them all is deaf for minutes."""
    package(ground.workspace, "far")
    near, chain = ground.project / "near", ground.workspace / "chain"
    near.mkdir(parents=True)
    chain.mkdir()
    (chain / "0").symlink_to("../far")
    for number in range(1, 60):
        (chain / str(number)).symlink_to(f"../chain/./../chain/{number - 1}")
    for number in (10, 59):
        (ground.project / f"link-{number}").symlink_to(f"../../chain/{number}")
    (ground.project / "winding").symlink_to("../../" + "far/../" * 500 + "far")
    (near / "SKILL.md").symlink_to("../../../" + "far/../" * 500 + "far/SKILL.md")
    assert ground.names() == ["far"]
    told = [record.__dict__["facts"] for record in caplog.records if record.message == scanner.SKIPPED]
    assert {Path(one["path"]).name for one in told} == {"link-59", "winding", "near"}
    assert all("too many others" in one["reason"] for one in told)


def test_a_source_behind_too_many_links_is_none(ground: Ground) -> None:
    package(ground.workspace / "real" / "skills", "mine")
    (ground.workspace / ".agents").symlink_to("real/../" * 500 + "real")
    assert ground.names() == []
    (ground.workspace / ".agents").unlink()
    (ground.workspace / ".agents").symlink_to("real")
    assert ground.names() == ["mine"]


@pytest.mark.parametrize("inner", ["same", "workspace in home", "home in workspace"])
def test_nothing_is_found_twice(tmp_path: Path, inner: str, caplog: pytest.LogCaptureFixture) -> None:
    home = workspace = tmp_path / "home"
    if inner == "workspace in home":
        workspace = home / "work"
    elif inner == "home in workspace":
        home = workspace / "home"
    package(home / ".agents" / "skills", "pdf")
    workspace.mkdir(exist_ok=True)
    library = SkillLibrary(workspace, home, [home / ".agents" / "skills"])
    found = {one.name: one.source for one in library.packages()}
    assert found["pdf"] == ("project:.agents/skills" if inner == "same" else "user:.agents/skills")
    assert caplog.text == ""
    (pdf,) = [one for one in library.packages() if one.name == "pdf"]
    assert pdf.inside is (inner != "workspace in home"), "what lies in the workspace is not to be trusted"


def test_the_search_goes_no_higher_than_the_workspace(ground: Ground) -> None:
    package(ground.workspace.parent / ".agents" / "skills", "above")
    package(ground.workspace.parent / "skills", "beside")
    assert ground.names() == []


def test_links_within_the_workspace_are_one_package(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    at = package(ground.project, "pdf")
    other = ground.workspace / ".claude" / "skills"
    other.mkdir(parents=True)
    (other / "pdf").symlink_to(at)
    (other / "doc").symlink_to("../../docs")
    package(ground.workspace, "docs", "Linked.")
    assert ground.names() == ["pdf", "docs"]
    assert [record.message for record in caplog.records] == [scanner.WARNED]


def test_links_of_the_user_lead_anywhere(ground: Ground) -> None:
    at = package(ground.workspace.parent / "dotfiles", "pdf")
    (ground.user / "linked").mkdir(parents=True)
    (ground.user / "pdf").symlink_to(at)
    (ground.user / "linked" / "SKILL.md").symlink_to(package(ground.workspace.parent, "linked") / "SKILL.md")
    assert ground.names() == ["linked", "pdf"]


def test_no_link_of_the_operator_leads_into_the_workspace(ground: Ground) -> None:
    """What lies there is the agent's: it would be taken for the operator's, and come before the product's own."""
    at = package(ground.workspace, "write-a-skill", "Evil.")
    (ground.more / "write-a-skill").symlink_to(at)
    (ground.more / "deploy").mkdir()
    (ground.more / "deploy" / "SKILL.md").symlink_to(package(ground.workspace, "deploy") / "SKILL.md")
    assert ground.sources() == {"write-a-skill": "bundled"}
    reasons = [fault.reason for fault in ground.library.catalog().faults]
    assert ["into the workspace" in reason for reason in reasons] == [True, True]


def test_no_link_of_the_workspace_leads_out_of_it(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    outside = ground.workspace.parent / "outside"
    at = package(outside, "secret", "A secret.")
    ground.project.mkdir(parents=True)
    (ground.project / "secret").symlink_to(at)
    (ground.project / "file").mkdir()
    (ground.project / "file" / "SKILL.md").symlink_to(at / "SKILL.md")
    (ground.project / "loop").symlink_to("loop")
    (ground.workspace / ".claude").mkdir()
    (ground.workspace / ".claude" / "skills").symlink_to(outside)
    assert ground.names() == []
    reasons = [str(record.__dict__["facts"]["reason"]) for record in caplog.records]
    assert reasons.count("is a link that leads out of the workspace") == 2
    ground.library = SkillLibrary(ground.workspace, ground.home, [ground.workspace / ".claude" / "skills"])
    assert ground.names() == ["secret"], "the operator has named it"


def hostile(folder: Path) -> dict[str, str]:
    """Folders that are no packages, each with the reason."""
    for name in ("huge", "pipe", "folder", "binary", "endless"):
        (folder / name).mkdir(parents=True)
    with (folder / "huge" / "SKILL.md").open("wb") as file:
        file.write(b"---\nname: huge\ndescription: x\n---\n")
        file.truncate(2 * 2**30)
    os.mkfifo(folder / "pipe" / "SKILL.md")
    (folder / "folder" / "SKILL.md").mkdir()
    (folder / "binary" / "SKILL.md").write_bytes(b"---\nname: binary\ndescription: \xff\xfe\n---\n")
    (folder / "endless" / "SKILL.md").write_text("---\nname: endless\ndescription: x\n" + "#\n" * 20_000)
    return {
        "huge": "SKILL.md is larger than 256 KiB",
        "pipe": "SKILL.md is not a regular file",
        "folder": "SKILL.md is a folder; name a file in it",
        "binary": "SKILL.md is not UTF-8 text",
        "endless": "must begin with front matter: YAML between two lines of ---, at most 16 KiB of it",
    }


def test_what_is_no_package_is_left_out_with_its_reason(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    package(ground.project, "good")
    reasons = hostile(ground.project)
    (ground.project / "README.md").write_text("not a folder")
    (ground.project / "empty").mkdir()
    (ground.project / ".hidden").mkdir()
    assert ground.names() == ["good"]
    logged = [record.__dict__["facts"] for record in caplog.records]
    assert {Path(one["path"]).name: one["reason"] for one in logged} == reasons
    caplog.clear()
    ground.library.list_packages()
    assert caplog.text == ""


def test_a_name_that_differs_from_its_folder_holds(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    package(ground.project, "pdf").rename(ground.project / "aaa")
    package(ground.project, "pdf", "The one in its own folder.")
    assert ground.names() == ["pdf"]
    assert dict(ground.library.list_packages())["pdf"] == "The one in its own folder."
    assert {record.message for record in caplog.records} == {scanner.HIDDEN}
    (ground.project / "pdf" / "SKILL.md").unlink()
    caplog.clear()
    assert ground.names() == ["pdf"]
    assert {record.message for record in caplog.records} == {scanner.WARNED}


def test_there_is_an_end_to_them(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(scanner.MAX_PACKAGES + 20):
        package(ground.project, f"p{number:03}")
    found = ground.library.list_packages()
    own = [f"p{number:03}" for number in range(scanner.MAX_PACKAGES - 1)]
    assert [name for name, _ in found] == ["write-a-skill", *own]
    assert "more skill packages have faults" in caplog.messages
    for number in range(scanner.MAX_ENTRIES):
        (ground.project / f"q{number:03}").mkdir()
    assert len(ground.library.list_packages()) <= scanner.MAX_PACKAGES


def test_so_many_entries_are_looked_at_in_all(ground: Ground, tmp_path: Path) -> None:
    """A command can make any number of files, and each call that may write walks by them. What is behind the end is
    neither offered nor watched, but a SKILL.md that bears its name is found without a list of its neighbours."""
    each = 1000
    for number in range(MAX_ALL_ENTRIES // each):
        (ground.project / f"m{number:02}").mkdir(parents=True)
        for name in range(each):
            (ground.project / f"m{number:02}" / str(name)).touch()
        if number == 0:
            assert ground.library.catalog().faults == [], "nothing is too much"
    package(ground.project, "n-exact")
    (package(ground.project, "n-other") / "SKILL.md").rename(ground.project / "n-other" / "skill.md")
    package(ground.project, "z-deep/pkg")
    assert ground.names() == ["n-exact"]
    assert [fault.reason for fault in ground.library.catalog().faults] == [scanner.TOO_MUCH]
    watched = PromptFileAuthors(Home(tmp_path / "data", user_folder=ground.workspace), ManualClock()).watched()
    assert {path.parent.name for path in watched if ground.project in path.parents} == {"n-exact"}
    (ground.project / "m00" / "0").unlink()
    (ground.project / "m00" / "1").unlink()
    assert ground.names() == ["n-exact", "n-other", "pkg"], "each folder is listed once"


def test_a_look_in_haste_reads_so_much_and_the_next_one_goes_on(ground: Ground) -> None:
    count, authority = 150, Authority()
    for number in range(count):
        package(ground.project, f"p{number:03}", "x" * 3000 + "\n---x")

    def offered() -> int:
        return len(ground.library.offered(authority, ("skill",)))

    first = offered()
    assert 30 < first < 80
    assert first < offered() < count
    assert len(ground.names()) == count
    assert offered() == count
    for number in range(count):
        package(ground.project, f"p{number:03}", "As people write them. " * 20)
    assert offered() == count, "what is usual is read at once"


def test_what_changes_is_read_anew_and_only_that(ground: Ground) -> None:
    at = package(ground.project, "pdf", "One.")
    package(ground.project, "doc", "Stays.")
    before = {one.name: one for one in ground.library.packages()}
    (at / "SKILL.md").write_text("---\nname: pdf\ndescription: Two.\n---\n")
    after = {one.name: one for one in ground.library.packages()}
    assert after["doc"] is before["doc"]
    assert after["pdf"].description == "Two."
    (at / "SKILL.md").unlink()
    assert ground.names() == ["doc"]
    package(ground.project, "pdf", "Three.")
    assert dict(ground.library.list_packages())["pdf"] == "Three."


def test_a_folder_that_was_named_and_is_not_there_is_told(ground: Ground, caplog: pytest.LogCaptureFixture) -> None:
    library = SkillLibrary(ground.workspace / "none", None, [ground.more / "none"])
    assert [name for name, _ in library.list_packages()] == ["write-a-skill"]
    assert [record.__dict__["facts"]["reason"] for record in caplog.records] == ["there is no such folder"]


def test_an_agent_is_offered_what_its_rules_do_not_deny(ground: Ground) -> None:
    for name in ("deploy-web", "deploy-db", "pdf"):
        package(ground.project, name)

    def offered(*rules: Rule, tools: tuple[str, ...] = BOTH) -> list[str]:
        authority = Authority((Layer(rules=rules),))
        return [one.name for one in ground.library.offered(authority, tools)]

    everything = ["write-a-skill", "deploy-db", "deploy-web", "pdf"]
    assert offered() == everything
    assert offered(Rule(permission="skill", action="ask")) == everything
    denied = Rule(permission="skill", pattern="deploy-*", action="deny")
    assert offered(Rule(permission="skill", action="allow"), denied) == ["write-a-skill", "pdf"]
    assert offered(denied, tools=("skill",)) == ["pdf"], "what cannot be done is not taught"
    assert offered(tools=("create_skill", "bash")) == []
    assert offered(Rule(permission="*", action="deny")) == []
