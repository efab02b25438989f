"""Skill packages as they are published, at a live runtime: loaded, or listed with what keeps them from it."""

from __future__ import annotations

from typing import Any

import pytest

from agent_testing import Call, Say

from ..conftest import Start
from ..live import Runtime, fresh

HEAD = "---\nname: pdf-report\ndescription: Makes reports.\n---\nDo it.\n"
PERSON_ONLY = "name: deploy-all\ndescription: Deploys.\ndisable-model-invocation: true"


def publish(agent: Runtime, at: str, content: str) -> None:
    path = agent.data_dir / "workspace" / ".agents" / "skills" / at
    path.parent.mkdir(parents=True)
    path.write_text(content)


def listed(agent: Runtime) -> dict[str, dict[str, Any]]:
    """The packages that the agent knows, by name, without the product's own."""
    found = agent.get("/capabilities").json()["packages"]
    return {one["name"]: one for one in found if one["name"] != "write-a-skill"}


def prompt(agent: Runtime) -> str:
    agent.provider.script.replace([Say("hello")])
    assert agent.chat("hi", session_id=fresh("s")).status_code == 200
    return agent.provider.completions[-1].messages[0]["content"]


@pytest.mark.parametrize(
    "at", ["pdf-report/skill.md", "pdf-report/Skill.md", "acme/skills/pdf-report/SKILL.md", "acme/pdf-report/SKILL.MD"]
)
def test_a_package_is_found_whatever_its_case_and_depth(reuse: Start, at: str) -> None:
    agent = reuse()
    publish(agent, at, HEAD)
    assert listed(agent).keys() == {"pdf-report"}
    assert "pdf-report" in prompt(agent)


@pytest.mark.parametrize("name", ["name: PDF Report\n", "name: pdf_report\n", ""])
def test_a_package_without_a_valid_name_has_that_of_its_folder(reuse: Start, name: str) -> None:
    agent = reuse()
    publish(agent, "pdf-report/SKILL.md", f"---\n{name}description: Makes reports.\n---\nDo it.\n")
    assert "it is called pdf-report" in listed(agent)["pdf-report"]["warning"]


@pytest.mark.parametrize("text", ["[beta] Makes minutes: dates, names.", "{draft} Makes minutes: dates.", "[beta]"])
def test_a_description_is_text(reuse: Start, text: str) -> None:
    agent = reuse()
    publish(agent, "minutes/SKILL.md", f"---\nname: minutes\ndescription: {text}\n---\nDo it.\n")
    assert listed(agent)["minutes"]["description"] == text


@pytest.mark.parametrize("yes", ["true", "'true'", "yes"])
def test_a_package_for_people_is_not_offered_to_the_model(reuse: Start, yes: str) -> None:
    agent = reuse()
    head = f"name: deploy-all\ndescription: Deploys.\ndisable-model-invocation: {yes}"
    publish(agent, "deploy-all/SKILL.md", f"---\n{head}\n---\nDo it.\n")
    assert "deploy-all" in listed(agent)
    assert "deploy-all" not in prompt(agent)


def test_a_package_that_codex_keeps_from_models_is_not_offered_either(reuse: Start) -> None:
    agent = reuse()
    publish(agent, "deploy-all/SKILL.md", "---\nname: deploy-all\ndescription: Deploys.\n---\nDo it.\n")
    publish(agent, "deploy-all/agents/openai.yaml", "policy:\n  allow_implicit_invocation: false\n")
    assert listed(agent)["deploy-all"]["invocation"] == "person"
    assert "deploy-all" not in prompt(agent)


def test_a_package_for_people_is_loaded_when_a_person_names_it(reuse: Start) -> None:
    agent = reuse()
    publish(agent, "deploy-all/SKILL.md", f"---\n{PERSON_ONLY}\n---\nPush the green button.\n")
    agent.provider.script.replace([Call("skill", {"name": "deploy-all"}), Say("Deployed.")])
    reply = agent.chat("Follow deploy-all, please.", session_id=fresh("s")).json()
    [made] = reply["tool_outputs"]
    assert made["state"] == "output-available", made
    first, second = agent.provider.completions[-2:]
    named = [message["role"] for message in first.messages if "deploy-all" in str(message["content"])]
    assert named == ["user"], "the model knows it of the person alone"
    assert "Push the green button." in str(second.messages[-1]["content"])


@pytest.mark.parametrize("content", ["Just text.", "---\nname: empty\n---\n", "---\nname: [\n---\n"])
def test_a_package_that_is_not_loaded_is_listed_with_the_reason(reuse: Start, content: str) -> None:
    agent = reuse()
    publish(agent, "empty/SKILL.md", content)
    faults = [one for one in agent.get("/capabilities").json()["package_faults"] if "empty" in one["path"]]
    assert [(one["loaded"], bool(one["reason"])) for one in faults] == [(False, True)]
