"""Files that are agents, and files that are none."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from agent_common.protocol import RequirementSet
from agent_common.protocol.authority import ALL_GRANTED
from agent_runtime.agents import DEFAULT, AgentDirectory
from agent_runtime.errors import InvalidRequest

GOOD = "description: Reads.\nmode: all\n"
BUILTIN = {"build", "compaction", "default", "explore", "plan"}


def fault(folder: Path, name: str, content: str | bytes) -> str:
    """What is wrong with a file, on its card; nothing else breaks."""
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    agents = AgentDirectory(folder)
    cards = {card.name: card for card in agents.cards()}
    assert cards.keys() >= BUILTIN
    assert {agent.name for agent in agents.all()} == BUILTIN
    error = cards[name].error
    assert error is not None
    return error


def test_a_markdown_file_is_its_fields_and_its_prompt(tmp_path: Path) -> None:
    (tmp_path / "critic.md").write_text(
        "---\n"
        "description: >\n  Reads and\n  judges.\n"
        "mode: subagent\nmodel: small\ntools: [read, 'skill:*']\ninspectable: true\nmax_steps: 7\n"
        "grant: {fs: {read: ['{workspace}']}, net: {hosts: ['*.org']}}\n"
        "permissions:\n  read: allow\n  bash: {'git *': allow, '*': deny}\n"
        "---\n\nYou judge.\n\n---\nBe short.\n"
    )
    agent = AgentDirectory(tmp_path).get("critic")
    assert agent is not None
    assert (agent.description, agent.mode, agent.model) == ("Reads and judges.", "subagent", "small")
    assert (agent.inspectable, agent.max_steps, agent.source) == (True, 7, "file")
    assert agent.prompt == "You judge.\n\n---\nBe short."
    assert agent.layer.tools == ("read", "skill:*")
    assert agent.layer.grant == RequirementSet.model_validate(
        {"fs": {"read": ["{workspace}"]}, "net": {"hosts": ["*.org"]}}
    )
    rules = [(rule.permission, rule.pattern, rule.action, rule.source) for rule in agent.layer.rules or ()]
    assert rules == [
        ("read", "*", "allow", "manifest"),
        ("bash", "git *", "allow", "manifest"),
        ("bash", "*", "deny", "manifest"),
    ]


def test_a_yaml_file_holds_the_prompt_too_and_lists_mean_the_same_as_mappings(tmp_path: Path) -> None:
    (tmp_path / "one.yml").write_text(
        f"{GOOD}name: other\nprompt: |\n  You read.\npermissions: {{read: {{'a*': ask}}}}\n"
    )
    (tmp_path / "two.yaml").write_text(f"{GOOD}permissions: [{{permission: read, pattern: 'a*', action: ask}}]\n")
    agents = AgentDirectory(tmp_path)
    one, two = agents.get("other"), agents.get("two")
    assert one is not None
    assert two is not None
    assert agents.get("one") is None
    assert one.prompt == "You read."
    assert one.layer.rules == two.layer.rules
    assert (two.layer.grant, two.layer.tools, two.max_steps) == (ALL_GRANTED, ("*",), None)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("description: x\n", "mode: Field required"),
        ("description: x\nmode: both\n", "mode: Input should be 'primary', 'subagent', 'all' or 'internal'"),
        (f"{GOOD}colour: red\n", "colour: no such field; there are: name, description, mode"),
        (f"{GOOD}tools: 7\n", "tools: Input should be a valid list"),
        (f"{GOOD}tools: [1]\n", "tools[0]: Input should be a valid string"),
        (f"{GOOD}max_steps: 0\n", "max_steps: "),
        (f"{GOOD}max_steps: '3'\n", "max_steps: Input should be a valid integer"),
        (f"{GOOD}inspectable: maybe\n", "inspectable: "),
        (f"{GOOD}permissions: {{read: maybe}}\n", "permissions[0].action: Input should be 'allow', 'ask' or 'deny'"),
        (f"{GOOD}permissions: {{read: yes}}\n", "permissions[0].action: "),
        (f"{GOOD}permissions: {{read: {{a: allow, b: no}}}}\n", "permissions[1].action: "),
        (f"{GOOD}permissions: {{7: allow}}\n", "permissions[0].permission: Input should be a valid string"),
        (f"{GOOD}permissions: [{{permission: read}}]\n", "permissions[0].action: Field required"),
        (f"{GOOD}permissions: [{{permission: read, action: ask, since: 1}}]\n", "permissions[0].since: "),
        (f"{GOOD}permissions:\n  bash: deny\n  bash: allow\n", "line 5: bash is there twice"),
        (f"{GOOD}grant: {{fs: {{read: ['{{home}}']}}}}\n", "grant: there is no variable {home}"),
        (f"{GOOD}grant: {{fs: {{write: [src]}}}}\n", "grant: 'src' must be absolute or begin with a variable"),
        (f"{GOOD}grant: {{disk: []}}\n", "grant.disk: "),
        (f"{GOOD}grant:\n", "grant: write {} to grant nothing, or leave it out to grant everything"),
        (f"{GOOD}grant: {{shell: [{{cmd: {{}}}}]}}\n", "give exactly one of wildcard and prefix"),
        (f"{GOOD}name: Not A Name\n", "name: "),
        (f"{GOOD}name:\n", "name: Input should be a valid string"),
        (f"{GOOD}name: ../up\n", "name: "),
        ("- a\n- b\n", "must be a mapping of fields"),
        ("just words", "must be a mapping of fields"),
        ("", "must be a mapping of fields"),
        ("1: 2\n", "must be a mapping of fields"),
        (f"{GOOD}prompt: 'no end\n", "is not YAML: "),
        (f"{GOOD}prompt: 2024-13-45\n", "quote it"),
        (f"{GOOD}prompt: 0x_\n", "quote it"),
        (f"{GOOD}prompt: !!bool x\n", "quote it"),
        (f"{GOOD}prompt: !!timestamp x\n", "quote it"),
        (f"{GOOD}prompt: {'9' * 5000}\n", "quote it"),
        (f"{GOOD}prompt: !!python/object/apply:os.getcwd []\n", "is not YAML: could not determine a constructor"),
        (f"{GOOD}---\n{GOOD}", "is not YAML: expected a single document"),
        (b"\x00" * 20, "is not YAML: unacceptable character #x0000"),
        (f"{GOOD}prompt: bell \x07\n", "is not YAML: unacceptable character #x0007"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"#" * (256 * 1024 + 1), "is larger than 256 KiB"),
    ],
)
def test_a_file_that_is_no_agent_says_why(tmp_path: Path, content: str | bytes, says: str) -> None:
    assert says in fault(tmp_path, "file.yaml", content)


@pytest.mark.parametrize(
    "content", ["no front matter", "---\ndescription: x\nmode: all\n", "", "\n---\nmode: all\n---\n"]
)
def test_markdown_needs_front_matter(tmp_path: Path, content: str) -> None:
    assert "must begin with front matter" in fault(tmp_path, "file.md", content)


def test_the_line_of_a_fault_is_that_of_the_file(tmp_path: Path) -> None:
    assert "line 4: mode is there twice" in fault(tmp_path, "file.md", f"---\n{GOOD}mode: primary\n---\n")


LAUGHS = "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12))
MERGES = "".join(f"{chr(98 + n)}: &{chr(98 + n)} {{<<: [{', '.join([f'*{chr(97 + n)}'] * 9)}]}}\n" for n in range(12))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"{GOOD}a: &a [ha, ha]\n{LAUGHS}tools: *m\n", "line 4: aliases (*name) are not taken"),
        (f"{GOOD}a: &a {{x: 1}}\n{MERGES}", "line 4: aliases (*name) are not taken"),
        (f"{GOOD}permissions: &p [*p]\n", "line 3: aliases (*name) are not taken"),
        (f"{GOOD}<<: {{tools: [read]}}\n", "line 3: merges (<<) are not taken"),
        ("[" * 200_000, "is nested deeper than 20 levels"),
        ("{a: " * 50_000, "is nested deeper than 20 levels"),
        ("- " * 100_000, "is nested deeper than 20 levels"),
    ],
    ids=["laughs", "merges", "itself", "merge", "lists", "mappings", "dashes"],
)
def test_no_file_makes_anybody_wait(tmp_path: Path, content: str, says: str) -> None:
    started = time.process_time()
    assert says in fault(tmp_path, "file.yaml", content)
    assert time.process_time() - started < 5


def test_names_come_from_files_and_follow_a_rule(tmp_path: Path) -> None:
    for name in ("with space", "-dash", "x" * 65, 'a"b', "ünïcode"):
        assert fault(tmp_path, f"{name}.yaml", GOOD).startswith("name: ")
        (tmp_path / f"{name}.yaml").unlink()
    (tmp_path / "A-b_9.yaml").write_text(GOOD)
    assert AgentDirectory(tmp_path).get("A-b_9") is not None


def test_a_manifest_may_be_json_and_as_short_as_this(tmp_path: Path) -> None:
    (tmp_path / "short.json").write_text('{"mode": "all", "tools": "read, skill:*", "system_prompt": "You read."}')
    agent = AgentDirectory(tmp_path).get("short")
    assert agent is not None
    assert (agent.description, agent.layer.tools, agent.prompt) == ("", ("read", "skill:*"), "You read.")


def test_of_two_files_with_one_name_the_first_is_the_agent(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{GOOD}name: twin\nprompt: first\n")
    (tmp_path / "b.yaml").write_text(f"{GOOD}name: twin\nprompt: second\n")
    agents = AgentDirectory(tmp_path)
    twin = agents.get("twin")
    assert twin is not None
    assert twin.prompt == "first"
    assert {card.name: card.error for card in agents.cards()}["b.yaml"] == "name: twin is taken by another file"


def test_a_file_may_take_the_place_of_an_agent_of_the_product(tmp_path: Path) -> None:
    agents = AgentDirectory(tmp_path)
    before = agents.require_selectable("explore")
    (tmp_path / "explore.yaml").write_text("description: Mine.\nmode: subagent\n")
    assert agents.get("explore") != before
    with pytest.raises(InvalidRequest, match="agent explore is for other agents only"):
        agents.require_selectable("explore")
    (tmp_path / "explore.yaml").unlink()
    assert agents.require_selectable("explore") == before


def test_the_folder_may_come_change_and_go_at_any_time(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    agents = AgentDirectory(folder)
    assert agents.get("x") is None
    folder.mkdir()
    (folder / "x.md").write_text(f"---\n{GOOD}---\none")
    found = agents.get("x")
    assert found is not None
    assert found.prompt == "one"
    (folder / "x.md").write_text(f"---\n{GOOD}---\ntwo")
    found = agents.get("x")
    assert found is not None
    assert found.prompt == "two"
    (folder / "x.md").write_text("broken")
    assert agents.get("x") is None
    (folder / "x.md").unlink()
    assert {card.name for card in agents.cards()} == BUILTIN
    folder.rmdir()
    assert agents.require_selectable(DEFAULT).source == "builtin"


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "gone.md").symlink_to(tmp_path / "nowhere")
    (tmp_path / "zero.yaml").symlink_to("/dev/zero")
    (tmp_path / ".hidden.md").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path.parent / "elsewhere.yaml").write_text(GOOD)
    (tmp_path / "linked.yaml").symlink_to(tmp_path.parent / "elsewhere.yaml")
    started = time.process_time()
    agents = AgentDirectory(tmp_path)
    errors = {card.name: card.error for card in agents.cards() if card.error}
    assert errors == {
        "folder.md": "is not a file",
        "gone.md": "cannot be read: No such file or directory",
        "pipe.md": "is not a file",
        "zero.yaml": "is not a file",
    }
    assert agents.get("linked") is not None
    assert time.process_time() - started < 2


def test_who_is_not_there_or_not_for_people_cannot_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "helper.yaml").write_text("description: Helps.\nmode: subagent\n")
    with pytest.raises(InvalidRequest) as refused:
        AgentDirectory(tmp_path).require_selectable("nobody")
    assert refused.value.faults == (("agent", "must be one of: build, default, explore, plan"),)
    with pytest.raises(InvalidRequest, match="agent helper is for other agents only"):
        AgentDirectory(tmp_path).require_selectable("helper")
