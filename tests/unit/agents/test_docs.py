"""docs/reference/agents.md and docs/reference/permissions.md, held to the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import NewRule, RequirementSet, Rule, authority
from agent_common.protocol.authority import Access, decide
from agent_common.protocol.permission import MAX_PATTERN_STARS, MAX_RULES
from agent_runtime.agents import AgentDirectory, ProjectRules
from agent_runtime.agents.directory import MAX_MANIFEST_BYTES, SUFFIXES, builtin_agents
from agent_runtime.agents.manifest import _ManifestFile  # pyright: ignore[reportPrivateUsage]  the fields are its table
from agent_runtime.agents.safe_yaml import load
from agent_runtime.loop.subagents.service import MAX_DEPTH
from agent_runtime.loop.subagents.transcript import MAX_BYTES as MOST_TRANSCRIPT
from agent_runtime.settings import Settings

DOCS = Path(__file__).parents[3] / "docs" / "reference"
AGENTS, PERMISSIONS = (DOCS / "agents.md").read_text(), (DOCS / "permissions.md").read_text()
EXAMPLES = re.findall(
    r"^\| ((?:(?:manifest|project|session): .*?|none)) \| (allow|ask|deny)\b", PERMISSIONS, re.MULTILINE
)
YAML = re.findall(r"```yaml\n(.*?)```", PERMISSIONS, re.DOTALL)


def default(name: str) -> Any:
    return Settings.model_fields[name].default


def test_the_agents_of_the_product_are_in_the_table() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `(primary|all|subagent|internal)` \| ", AGENTS, re.MULTILINE))
    assert rows == {agent.name: agent.mode for agent in builtin_agents().values()}


def test_every_field_has_a_row() -> None:
    table = AGENTS.partition("| field | default |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(_ManifestFile.model_fields)
    assert "`system_prompt` means the same" in table


def test_the_limits_are_those_of_the_code() -> None:
    assert f"`metadata.transcript` of the call's result, up to {MOST_TRANSCRIPT // 1024} KiB" in AGENTS
    assert f"| depth | {MAX_DEPTH};" in AGENTS
    assert f"`AGENT_MAX_SUBAGENTS` ({default('max_subagents')})" in AGENTS
    assert f"`AGENT_SUBAGENT_TIMEOUT` ({default('subagent_timeout'):g} s)" in AGENTS
    assert f"above {MAX_MANIFEST_BYTES // 1024} KiB" in AGENTS
    assert all(f"`{suffix}`" in AGENTS for suffix in SUFFIXES if suffix != ".md")
    assert f"at most {MAX_RULES} with at most {MAX_PATTERN_STARS} `*` in a pattern" in PERMISSIONS


def test_the_example_is_an_agent(tmp_path: Path) -> None:
    example = re.search(r"```markdown\n(.*?)```", AGENTS, re.DOTALL)
    assert example is not None
    (tmp_path / "reviewer.md").write_text(example[1])
    agent = AgentDirectory(tmp_path).get("reviewer")
    assert agent is not None
    assert agent.prompt.startswith("You review.")
    assert "{AGENT_DATA_DIR}/agents/reviewer.md" in AGENTS


@pytest.mark.parametrize(("written", "answer"), EXAMPLES)
def test_the_table_of_rules_is_right(written: str, answer: str) -> None:
    rules = [
        Rule.model_validate({"permission": permission, "pattern": pattern, "action": action, "source": source})
        for source, some in re.findall(r"(\w+): ([^;]+)", written)
        for permission, pattern, action in re.findall(r"`(\S+) ([^`]+)` (\w+)", some)
    ]
    assert rules
    found = decide(rules, Access("bash", capabilities=("shell.run",), subjects=("git push origin",)))
    assert found.action == answer


def test_the_table_has_examples() -> None:
    assert len(EXAMPLES) == 8


def test_what_stands_there_as_yaml_can_be_read(tmp_path: Path) -> None:
    rule, grant, project = (load(text) for text in YAML)
    NewRule.model_validate(rule)
    assert authority.requirements_fault(RequirementSet.model_validate(grant["grant"])) is None
    (tmp_path / "permissions.yaml").write_text(YAML[2])
    assert [one.permission for one in ProjectRules.read(tmp_path).rules] == [
        one["permission"] for one in project["rules"]
    ]
    short = re.search(r"`permissions: (\{.*?\})`\.", PERMISSIONS)
    assert short is not None
    (tmp_path / "short.yaml").write_text(f"mode: all\npermissions: {short[1]}\n")
    assert AgentDirectory(tmp_path).get("short") is not None


def test_links_between_the_pages_lead_somewhere() -> None:
    for page in (AGENTS, PERMISSIONS):
        for name, heading in re.findall(r"\]\((\w+\.md)(?:#([\w-]+))?\)", page):
            text = (DOCS / name).read_text()
            headings = {
                re.sub(r"[^\w -]", "", line).strip().lower().replace(" ", "-")
                for line in text.splitlines()
                if line.startswith("#")
            }
            assert not heading or heading in headings
