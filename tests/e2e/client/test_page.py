"""The examples of the client's page run as they stand."""

from __future__ import annotations

import ast
import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

import agent_client
from agent_testing import Call, Recorded, Say, Step

from ..live import TOKEN, Runtime

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "client.md").read_text("utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
OF_THE_HOST = [example for example in EXAMPLES if "Mesh(" in example]
SPOKEN = json.dumps({"result": {"title": "A title"}})
QUESTION = {"questions": [{"question": "Which colour?"}]}


def model(request: Recorded) -> Step:
    asked, tools = request.last_user_text, sum(message["role"] == "tool" for message in request.messages)
    if "sales.csv" in asked:
        return Say(json.dumps({"result": {"orders": 2, "total": 42.5}}))
    if "fence" in asked:
        return Call("question", QUESTION) if not tools else Say("It is blue.")
    return Say(SPOKEN)


async def test_the_examples_of_the_page_run(agent: Runtime, capsys: pytest.CaptureFixture[str]) -> None:
    agent.provider.script.replace(model)
    names: dict[str, Any] = {"token": TOKEN}
    for example in EXAMPLES:
        if example not in OF_THE_HOST:
            await run(example.replace("http://localhost:8400", agent.url), names)
    assert names["report"].orders == 2
    assert names["answer"] == {"title": "A title"}
    assert names["titles"] == [{"title": "A title"}] * 3
    assert capsys.readouterr().out.splitlines() == ["42.5", "[question]", f"It is blue.{SPOKEN}", "unknown_session"]


async def run(example: str, names: dict[str, Any]) -> None:
    code = compile(example, "client.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    done = eval(code, names)  # noqa: S307  the page is ours
    if inspect.isawaitable(done):
        await done


def test_the_page_names_every_public_name() -> None:
    sayable = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`|```.*?```", PAGE, re.DOTALL))))
    parts = {"Files", "Sessions", "Tokens", "Work", "Workspaces"}
    parts |= {"Artifacts", "Blackboard", "Team", "TeamAgents", "Topics"}
    answers = {"AgentEvent", "ChatEvent", "ChatStream", "CommandOutcome", "CreatedToken", "CreatedWorkspace"}
    answers |= {
        "Delivery",
        "FileInfo",
        "HostRequest",
        "Pending",
        "Reply",
        "ResultRecord",
        "TeamEvent",
        "Token",
        "UnreachableAgent",
        "UsageReport",
        "WorkEvent",
        "WorkRecord",
        "Workspace",
    }
    assert set(agent_client.__all__) - sayable == (parts | answers) - sayable
    kinds = (agent_client.Agent, agent_client.Mesh, *(getattr(agent_client, name) for name in parts))
    members = {name for kind in kinds for name in vars(kind) if not name.startswith("_")}
    assert members - sayable == {"aclose", "over"}
