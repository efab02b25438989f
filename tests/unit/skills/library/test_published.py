"""Packages as they are published: whatever the case of their file, the depth of their folder, and their front matter,
they are loaded, or what keeps them from it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_common.protocol.authority import Authority
from agent_runtime.errors import ToolFailure
from agent_runtime.skills import SkillLibrary
from agent_runtime.tools.agent.skill import skill_tool
from agent_runtime.workspace import Home, PromptFileAuthors, Writer
from agent_testing import ManualClock

from .shelves import Ground, package


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def publish(folder: Path, at: str, head: str, body: str = "Do it.") -> Path:
    path = folder / at
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{head}\n---\n{body}\n")
    return path


HEAD = "name: pdf-report\ndescription: Makes reports."


@pytest.mark.parametrize("file", ["SKILL.md", "skill.md", "Skill.md", "SKILL.MD", "sKiLl.mD"])
def test_the_file_may_be_written_in_any_case(ground: Ground, file: str) -> None:
    publish(ground.project, f"pdf-report/{file}", HEAD)
    assert ground.names() == ["pdf-report"]
    assert not ground.library.catalog().faults


@pytest.mark.parametrize(
    "at",
    [
        "pdf-report",
        "acme/pdf-report",
        "acme/skills/pdf-report",
        ".system/pdf-report",
        "skills/.curated/pdf-report",
        "market/plugins/office/skills/pdf-report",
        "acme/market/plugins/office/skills/pdf-report",
    ],
)
@pytest.mark.parametrize("where", ["project", "user", "more"])
def test_packages_of_many_authors_lie_deeper(ground: Ground, at: str, where: str) -> None:
    publish(getattr(ground, where), f"{at}/SKILL.md", HEAD)
    assert ground.names() == ["pdf-report"]


def faults(ground: Ground, folder: Path) -> dict[str, str]:
    """What is wrong in a folder of packages: path -> reason."""
    found = ground.library.catalog().faults
    return {str(Path(one.path).relative_to(folder)): one.reason for one in found if folder in Path(one.path).parents}


def test_what_lies_in_a_package_or_too_deep_is_noted(ground: Ground) -> None:
    for at in ("outer", "outer/skills/inner", "outer/assets/sample", "a/b/c/d/e/f/deep"):
        publish(ground.project, f"{at}/SKILL.md", f"name: {Path(at).name}\ndescription: Of {at}.")
    publish(ground.project, "a/node_modules/foreign/SKILL.md", "name: foreign\ndescription: Foreign.")
    publish(ground.project, "a/.git/hidden/SKILL.md", "name: hidden\ndescription: Hidden.")
    assert ground.names() == ["outer"]
    assert faults(ground, ground.project) == {
        "outer/skills/inner": "lies in another package, and is not looked for there: move it beside that one",
        "a/b/c/d/e/f/deep": "lies more than 6 folders deep: move it up",
    }


def test_a_large_repository_hides_no_package_beside_it(ground: Ground) -> None:
    for number in range(500):
        (ground.project / "aaa-repository" / "source" / str(number)).mkdir(parents=True)
    publish(ground.project, "zzz/SKILL.md", HEAD)
    assert ground.names() == ["pdf-report"]


def test_a_package_in_one_file_is_noted(ground: Ground) -> None:
    ground.project.mkdir(parents=True)
    for at in ("notes.md", "pdf/pdf.md", "acme/minutes.md", "acme/other.MD"):
        publish(ground.project, at, "description: Makes something.")
    publish(ground.project, "good/SKILL.md", "name: good\ndescription: Good.")
    publish(ground.project, "good/more.md", "description: Of a package.")
    publish(ground.project, "repository/deep/found/SKILL.md", "name: found\ndescription: Found.")
    publish(ground.project, "repository/CONTRIBUTING.md", "description: Beside packages.")
    (ground.project / "README.md").write_text("# Packages\n\n---\ndescription: x\n---\n")
    for _ in range(2):  # the second time nothing is read
        assert ground.names() == ["good", "found"]
        assert faults(ground, ground.project) == {
            "notes.md": "is a file, and a package is a folder: call it notes/SKILL.md",
            "pdf/pdf.md": "is a file, and a package is a folder: call it SKILL.md",
            "acme/minutes.md": "is a file, and a package is a folder: call it minutes/SKILL.md",
            "acme/other.MD": "is a file, and a package is a folder: call it other/SKILL.md",
        }
    (ground.project / "notes.md").write_text("Just notes.")
    assert "notes.md" not in faults(ground, ground.project)


@pytest.mark.parametrize("at", ["pdf-report", "acme/skills/pdf-report", "a/b/c/d/e/f"])
@pytest.mark.parametrize("file", ["SKILL.md.txt", "SKILL", "skill.markdown", "skill.mdx", "Skill.txt", "SKILLS.md"])
def test_a_file_that_is_nearly_called_so_is_noted(ground: Ground, at: str, file: str) -> None:
    publish(ground.project, f"{at}/{file}", HEAD)
    assert ground.names() == []
    assert faults(ground, ground.project) == {f"{at}/{file}": "is a file, and a package is a folder: call it SKILL.md"}


@pytest.mark.parametrize("file", ["pdf-report.skill", "pdf-report.zip", "acme/pdf-report.tar.gz", "PDF.ZIP"])
def test_an_archive_is_noted(ground: Ground, file: str) -> None:
    at = ground.project / file
    at.parent.mkdir(parents=True)
    at.write_bytes(b"PK")
    assert faults(ground, ground.project) == {file: "is an archive, and a package is a folder: unpack it"}


def test_a_link_that_leads_nowhere_is_noted(ground: Ground) -> None:
    folder = ground.project / "pdf-report"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").symlink_to("moved.md")
    assert faults(ground, ground.project) == {"pdf-report": "SKILL.md is a link to a file that is not there"}


def test_the_folder_of_packages_may_be_a_package_if_the_operator_names_it(ground: Ground) -> None:
    publish(ground.more, "SKILL.md", HEAD)
    publish(ground.more, "other/SKILL.md", "name: other\ndescription: Other.")
    assert ground.names() == ["other", "pdf-report"]
    publish(ground.project, "skill.md", "name: mine\ndescription: Mine.")
    assert ground.names() == ["other", "pdf-report"]
    assert faults(ground, ground.project) == {
        "skill.md": "lies in the folder of packages itself: give it a folder of its own"
    }


def test_a_package_that_lies_higher_comes_first(ground: Ground) -> None:
    publish(ground.project, "acme/pdf-report/SKILL.md", "name: pdf-report\ndescription: Deeper.")
    publish(ground.project, "pdf-report/SKILL.md", "name: pdf-report\ndescription: Higher.")
    assert dict(ground.library.list_packages())["pdf-report"] == "Higher."
    [fault] = ground.library.catalog().faults
    assert (Path(fault.path), fault.loaded) == (ground.project / "acme" / "pdf-report", False)


def test_links_are_followed_where_no_agent_can_make_them(ground: Ground, tmp_path: Path) -> None:
    publish(tmp_path / "repository", "skills/pdf-report/SKILL.md", HEAD)
    for folder in (ground.project, ground.user):
        folder.mkdir(parents=True)
    (ground.project / "acme").symlink_to(tmp_path / "repository")
    assert ground.names() == []
    assert faults(ground, ground.project) == {"acme": "is a link that leads out of the workspace"}
    (ground.user / "acme").symlink_to(tmp_path / "repository")
    assert ground.names() == ["pdf-report"]


def test_a_link_to_a_folder_of_packages_of_the_workspace_is_followed(ground: Ground) -> None:
    publish(ground.workspace, "tools/skills/pdf-report/SKILL.md", HEAD)
    ground.project.mkdir(parents=True)
    (ground.project / "tools").symlink_to("../../tools/skills")
    authors = PromptFileAuthors(Home(ground.workspace.parent / "data", user_folder=ground.workspace), ManualClock())
    ground.library = SkillLibrary(ground.workspace, authors=authors)
    assert ground.names() == ["pdf-report"], "its authors are kept, or it would not be offered"


def test_a_link_that_lies_deeper_is_a_package_or_noted(ground: Ground) -> None:
    publish(ground.workspace.parent, "repository/pdf-report/SKILL.md", HEAD)
    publish(ground.user, "acme/skills/own/SKILL.md", "name: own\ndescription: Own.")
    (ground.user / "acme" / "pdf-report").symlink_to(ground.workspace.parent / "repository" / "pdf-report")
    (ground.user / "acme" / "more").symlink_to(ground.workspace.parent / "repository")
    (ground.user / "acme" / ".claude").mkdir()
    (ground.user / "acme" / ".claude" / "skills").symlink_to("../skills")
    (ground.user / "acme" / "circle").symlink_to("..")
    assert ground.names() == ["pdf-report", "own"]
    [(at, reason)] = faults(ground, ground.user).items()
    assert at == "acme/more"
    assert "is a link to a folder of packages" in reason


@pytest.mark.parametrize(
    "written", ["PDF Report", "pdf_report", "", "null", "~", "PDF-Report", "-pdf", "päge", "x" * 80, "[pdf]"]
)
@pytest.mark.parametrize("folder", ["pdf-report", "PDF Report", "pdf_report"])
def test_a_package_without_a_valid_name_is_called_as_its_folder(ground: Ground, written: str, folder: str) -> None:
    head = f"name: {written}\n" if written else ""
    publish(ground.project, f"{folder}/SKILL.md", f"{head}description: Makes reports.")
    assert ground.names() == ["pdf-report"]
    catalog = ground.library.catalog()
    [found] = [one for one in catalog.packages if one["name"] == "pdf-report"]
    assert "it is called pdf-report, as its folder" in found["warning"]
    [fault] = catalog.faults
    assert fault.loaded
    assert fault.reason == found["warning"]


def test_a_package_without_any_name_is_told_with_the_cure(ground: Ground) -> None:
    publish(ground.project, "报告/SKILL.md", "name: 报告\ndescription: Makes reports.")
    assert ground.names() == []
    [fault] = ground.library.catalog().faults
    assert not fault.loaded
    assert "rename one of them" in fault.reason


@pytest.mark.parametrize(
    "written",
    [
        "[beta] Makes minutes: dates, names.",
        "[beta]",
        "{draft} Makes minutes: dates.",
        "- Makes minutes: dates.",
        "Makes minutes: dates, names.",
        "*Makes* `minutes`: @all, %d",
        "> 100 pages: minutes",
        "'Makes' minutes: dates",
        "Makes minutes # and more: dates",
        "!important: makes minutes",
        "&c. makes minutes",
        "| Makes | minutes: dates |",
        "yes",
    ],
)
def test_a_description_is_text_however_yaml_reads_it(ground: Ground, written: str) -> None:
    publish(ground.project, "minutes/SKILL.md", f"name: minutes\ndescription: {written}")
    found = dict(ground.library.list_packages()).get("minutes", str(ground.library.catalog().faults))
    assert found == written.partition(" #")[0]


@pytest.mark.parametrize("yes", ["true", "True", "yes", "'true'", "on"])
async def test_a_package_for_people_is_not_offered_and_can_be_named(ground: Ground, yes: str) -> None:
    publish(ground.project, "deploy/SKILL.md", f"name: deploy\ndescription: Deploys.\ndisable-model-invocation: {yes}")
    package(ground.project, "open")
    offered = ground.library.offered(Authority(), {"skill"})
    assert [one.name for one in offered if not one.person_only and one.source != "bundled"] == ["open"]
    assert ground.names() == ["open"]
    [found] = [one for one in ground.library.catalog().packages if one["name"] == "deploy"]
    assert found["invocation"] == "person"
    context = ground.context(deploy="project:.agents/skills", open="project:.agents/skills")
    loaded = await skill_tool(ground.library).run({"name": "deploy"}, context)
    assert "Do it." in str(loaded)
    with pytest.raises(ToolFailure) as refused:
        await skill_tool(ground.library).run({"name": "other"}, context)
    assert "open" in refused.value.message
    assert "deploy" not in refused.value.message


@pytest.mark.parametrize(
    "line", ["disable_model_invocation: true", "Disable-Model-Invocation: y", '"disable-model-invocation": True # x']
)
def test_a_field_may_be_spelt_otherwise(ground: Ground, line: str) -> None:
    publish(ground.project, "deploy/SKILL.md", f"Name: deploy\nDescription: Deploys.\n{line}")
    [found] = [one for one in ground.library.catalog().packages if one["name"] == "deploy"]
    assert (found["description"], found["invocation"]) == ("Deploys.", "person")


@pytest.mark.parametrize("no", ["false", "no", "", "[]"])
def test_any_other_value_offers_it(ground: Ground, no: str) -> None:
    publish(ground.project, "deploy/SKILL.md", f"name: deploy\ndescription: Deploys.\ndisable-model-invocation: {no}")
    assert ground.names() == ["deploy"]


def test_a_package_that_is_not_loaded_is_told_with_the_reason(ground: Ground) -> None:
    publish(ground.project, "empty/SKILL.md", "name: empty")
    (ground.project / "plain").mkdir()
    (ground.project / "plain" / "skill.md").write_text("Just text.")
    faults = {Path(one.path).name: one for one in ground.library.catalog().faults}
    assert faults.keys() == {"empty", "plain"}
    assert faults["empty"].reason == "description: is missing; add it to the front matter"
    assert "must begin with front matter" in faults["plain"].reason
    assert not any(one.loaded for one in faults.values())


def test_a_package_that_waits_for_a_person_is_named(ground: Ground) -> None:
    authors = PromptFileAuthors(Home(ground.workspace.parent / "data", user_folder=ground.workspace), ManualClock())
    ground.library = SkillLibrary(ground.workspace, authors=authors)
    call = authors.begin(lambda: Writer("alice", "default", unreviewed=True))
    file = publish(ground.project, "pdf-report/SKILL.md", HEAD)
    authors.end(call)
    assert ground.names() == []
    [fault] = ground.library.catalog().faults
    assert (fault.path, fault.loaded) == (str(file.parent), False)
    assert "a person must save it" in fault.reason
    authors.forget(file)
    assert ground.names() == ["pdf-report"]
    assert not ground.library.catalog().faults
