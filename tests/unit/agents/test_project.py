"""What the operator writes into `permissions.yaml`."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_common.protocol import Folders, RequirementSet
from agent_common.protocol.authority import ALL_GRANTED
from agent_runtime.agents import ProjectRules
from agent_runtime.errors import StartError


def read(folder: Path, content: str | bytes) -> ProjectRules:
    (folder / "permissions.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    return ProjectRules.read(folder)


def test_without_a_file_nothing_is_forbidden(tmp_path: Path) -> None:
    assert ProjectRules.read(tmp_path) == ProjectRules(ALL_GRANTED, ())
    assert read(tmp_path, "# nothing yet\n") == ProjectRules(ALL_GRANTED, ())


def test_a_ceiling_and_rules(tmp_path: Path) -> None:
    project = read(
        tmp_path,
        "ceiling:\n  fs: {read: ['{workspace}']}\nrules:\n  - {permission: bash, pattern: 'git *', action: deny}\n",
    )
    assert project.ceiling == RequirementSet(fs=Folders(read=["{workspace}"]))
    (rule,) = project.rules
    assert (rule.permission, rule.pattern, rule.action, rule.source) == ("bash", "git *", "deny", "project")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("rules: {bash: deny}\n", "rules: Input should be a valid list"),
        ("rules:\n", "rules: Input should be a valid list"),
        ("rule: []\n", "rule: Extra inputs are not permitted"),
        ("rules: [{permission: bash, action: never}]\n", "rules.0.action: Input should be 'allow', 'ask' or 'deny'"),
        ("rules: [{permission: bash, action: deny, source: session}]\n", "rules.0.source: "),
        ("rules: [{permission: '', action: deny}]\n", "rules.0.permission: "),
        ("ceiling:\n", "ceiling: write {} to grant nothing, or leave it out to grant everything"),
        ("ceiling: {fs: {read: ['{root}']}}\n", "ceiling: there is no variable {root}"),
        ("ceiling: {fs: {read: [here]}}\n", "ceiling: 'here' must be absolute"),
        ("- permission: bash\n", "must have the fields rules"),
        ("rules: []\nrules: []\n", "line 2: rules is there twice"),
        ("a: &a {x: 1}\nb: {<<: *a}\n", "aliases (*name) are not taken"),
        ("rules: 2024-99-99\n", "quote it"),
        ("[" * 100_000, "is nested deeper than 20 levels"),
        ("rules: [", "cannot be read"),
        (b"\xff", "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_meant_stops_the_start(tmp_path: Path, content: str | bytes, says: str) -> None:
    with pytest.raises(StartError) as refused:
        read(tmp_path, content)
    assert says in str(refused.value)
    assert "permissions.yaml" in str(refused.value)


def test_a_folder_in_its_place_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "permissions.yaml").mkdir()
    with pytest.raises(StartError, match="cannot be read"):
        ProjectRules.read(tmp_path)
