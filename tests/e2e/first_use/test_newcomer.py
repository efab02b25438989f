"""The first hour of a newcomer, whole: the README, a provider, an MCP configuration and a skill of one's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_testing import ScriptedProvider
from tests.integration.host.live import Host
from tests.integration.tools.package_index import package_index
from tests.measured import MEASURED

from ..live import Runtime, eventually, fresh

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
MAKE = ["make", "--no-print-directory", "-C", str(ROOT), "-o", ".venv/.ready"]
DEMO = ROOT / "tests/integration/connectors/demo_server.py"
SHOUT = '''
# /// script
# dependencies = ["loud>=1"]
# ///
import loud


@skill
def shout(text: str) -> str:
    """Say it loud."""
    return loud.shout(text)
'''


def copied_configuration(agent: Runtime) -> None:
    """A configuration as Claude Desktop has it, corrected as `mcp test` says."""
    server = {"command": sys.executable, "args": [str(DEMO), "stdio"], "env": {}, "autoApprove": ["add"]}
    file = agent.data_dir / "mcp.json"

    def tried() -> subprocess.CompletedProcess[str]:
        file.write_text(json.dumps({"mcpServers": {"demo": server}}))
        command = [sys.executable, "-m", "agent_runtime", "mcp", "test"]
        env = {**os.environ, **MEASURED, **agent.env}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)

    agent.data_dir.mkdir()
    first = tried()
    assert first.returncode == 1
    fix = re.search(r'add ("read": \[.*?\])', first.stdout)
    assert fix is not None, first.stdout + first.stderr
    server |= json.loads(f"{{{fix[1]}}}")
    again = tried()
    assert again.returncode == 0, again.stdout
    assert "demo_add" in again.stdout


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """`make mesh` with an endpoint of one's own, `make serve` beside it. The endpoint does what the message says."""
    folder = tmp_path_factory.mktemp("newcomer")
    with ScriptedProvider(models=("company-large",)) as company, package_index() as index:
        index.add("loud", "1.0", {"loud.py": "def shout(text): return text.upper() + '!'\n"})
        own = {"OPENAI_BASE_URL": company.url, "OPENAI_MODEL": "company-large", "OPENAI_API_KEY": "sk-company"}
        host = Host(folder / "mesh", **own)
        host.command = [*MAKE, "mesh"]
        with host:
            assert f"default is company-large at {company.url}" in host.process.output()
            there = {"AGENT_LLM_BASE_URL": "", "AGENT_MESH_URL": host.url, "MESH_DATA_DIR": str(folder / "mesh")}
            agent = Runtime(company, folder / "agent", AGENT_SKILL_INDEX=index.url, **there)
            copied_configuration(agent)
            agent.command = [*MAKE, "serve"]
            with agent:
                yield agent


def test_the_first_hour(agent: Runtime) -> None:
    eventually(lambda: agent.status()["state"] == "idle")
    eventually(lambda: agent.status()["mesh"] == "reachable")
    assert agent.chat("say:hello").json()["response"] == "hello"
    assert "the report" in agent.run(input_data={"objective": "say:the report"})["result"]["text"]

    question = {"questions": [{"question": "Which colour?", "options": [{"label": "red"}, {"label": "blue"}]}]}
    asked = agent.chat(f"tool:question:{json.dumps(question)}", session_id="fence")
    assert (asked.status_code, asked.json()["status"]) == (202, "waiting")
    [answered] = agent.chat("2", session_id="fence").json()["tool_outputs"]
    assert answered["output"]["data"] == {"answers": [["blue"]]}

    wrong = agent.chat("say:hello", model="gpt-9")
    assert wrong.status_code == 422
    assert "there is no model 'gpt-9'" in wrong.json()["detail"]
    assert agent.chat("say:again").json()["response"] == "again"

    (agent.data_dir / "skills" / "shout.py").write_text(SHOUT)
    eventually(lambda: [one["state"] for one in agent.get("/capabilities").json()["skills"]] == ["active"])
    [shouted] = agent.chat('tool:shout:{"text": "hello"}').json()["tool_outputs"]
    assert shouted["output"]["data"] == "HELLO!"

    waiting = agent.chat('tool:demo_add:{"a": 2, "b": 3}', session_id="sums").json()
    assert [one["kind"] for one in waiting["pending"]] == ["approval"]
    no = agent.chat("whatever you think", session_id="sums")
    assert (no.status_code, no.json()["code"]) == (409, "not_an_answer")
    [yes] = re.findall("yes [A-Z][0-9]", no.json()["detail"])
    [added] = agent.chat(yes, session_id="sums").json()["tool_outputs"]
    assert "5" in str(added["output"]["data"])


def test_several_questions_are_answered_in_the_shape_that_is_shown(agent: Runtime) -> None:
    session = fresh("s")
    questions = {"questions": [{"question": "Which colour?"}, {"question": "How big?"}]}
    assert agent.chat(f"tool:question:{json.dumps(questions)}", session_id=session).status_code == 202
    refused = agent.chat("blue", session_id=session).json()["detail"]
    shape = json.loads(refused[refused.index("{") : refused.rindex("}") + 1])
    assert shape["answers"] == [["..."], ["..."]]
    assert agent.post(f"/chat/{session}/answer", shape).status_code == 200


def test_what_is_not_there_says_where_to_look(agent: Runtime) -> None:
    refused = agent.http.get("/chat")
    assert refused.status_code == 405
    assert refused.json()["detail"] == "/chat takes POST, not GET; GET /openapi.json lists all routes"
    for method, path, status in (("GET", "/", 404), ("POST", "/v1/chat/completions", 404)):
        reply = agent.http.request(method, path)
        assert reply.status_code == status
        assert f"there is no route {method} {path}; GET /openapi.json lists" in reply.json()["detail"]
    assert "begins with its first message" in agent.get("/sessions/none").json()["detail"]
