"""What an operator reads: one line for each end of a turn, a task and a model call, in one shape in both servers."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Fail, LiveProcess, Say, ScriptedProvider
from tests.integration.host.live import Host, catalog, said

from ..live import SERVE, Runtime, eventually, fresh

IDS = ("timestamp", "level", "event", "logger")


def lines(process: LiveProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in process.output().splitlines() if line.startswith("{")]


def ends(process: LiveProcess, event: str, **about: Any) -> list[dict[str, Any]]:
    """The lines of that event with those facts, once there are any."""
    return eventually(
        lambda: [one for one in lines(process) if one["event"] == event and about.items() <= one.items()], 10
    )


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Runtime, Host]]:
    folder = tmp_path_factory.mktemp("house")
    with (
        ScriptedProvider(models=("big-1",)) as provider,
        Host(folder / "host", MESH_MODELS=catalog(folder, provider), UPSTREAM_KEY="sk") as host,
    ):
        reach = {"AGENT_LLM_BASE_URL": "", "AGENT_MESH_URL": host.url, "AGENT_MESH_TOKEN": host.token("logger")}
        with Runtime(provider, folder / "agent", AGENT_ID="logger", **reach) as agent:
            yield agent, host


def test_each_end_of_a_turn_and_of_a_model_call_is_one_line(house: tuple[Runtime, Host]) -> None:
    agent, host = house
    agent.provider.script.replace([Call("glob", {"pattern": "*.none"}), Say("done")])
    reply = agent.chat("go", session_id=fresh("s"), message_id=fresh("m")).json()
    assert reply["response"] == "done"
    [message] = agent.sql("SELECT message_id, session_id FROM turns WHERE client_id = ?", reply["message_id"])
    [end] = ends(agent.process, "turn ended", message_id=message["message_id"])
    assert (end["level"], end["status"], end["steps"]) == ("info", "complete", 2)
    assert (end["session_id"], end["model"], end["tokens"]) == (message["session_id"], "default", reply["tokens_used"])
    calls = ends(agent.process, "model call ended", message_id=message["message_id"])
    assert [(one["level"], one["http_status"], one["attempt"]) for one in calls] == [("info", 200, 1)] * 2
    for call in calls:
        [there] = ends(host.process, "model_call_ended", request_id=call["request_id"])
        assert (there["level"], there["agent_id"], there["http_status"]) == ("info", "logger", 200)
        assert (there["input"], there["output"]) == (call["input"], call["output"])


def test_a_task_ends_with_one_line_and_a_failure_is_a_warning(house: tuple[Runtime, Host]) -> None:
    agent, host = house
    agent.provider.script.replace([Say("done")])
    task_id = agent.run()["task_id"]
    assert [one["level"] for one in ends(agent.process, "task ended", task_id=task_id)] == ["info"]
    agent.provider.script.replace([Fail(429, "slow down", code="rate_limit_exceeded", retry_after=90)])
    task_id = agent.run()["task_id"]
    [end] = ends(agent.process, "task ended", task_id=task_id)
    assert (end["level"], end["status"], end["code"]) == ("warning", "failed", "model_rate_limited")
    [call] = ends(agent.process, "model call failed", message_id=end["message_id"])
    assert (call["level"], call["http_status"], call["code"]) == ("warning", 429, "model_rate_limited")
    assert call["retry_after"] == 90
    [there] = ends(host.process, "model_call_failed", request_id=call["request_id"])
    assert (there["level"], there["http_status"], there["code"]) == ("warning", 429, "rate_limit_exceeded")
    assert (there["agent_id"], there["model"], there["provider"]) == ("logger", "default", "upstream")


def test_what_never_reaches_a_provider_is_told_too(house: tuple[Runtime, Host]) -> None:
    agent, host = house
    with host.client(host.token("lost")) as client:
        for _ in range(5):
            assert client.post("/v1/chat/completions", json={**said("hi"), "model": "gpt-9"}).status_code == 404
    refused = ends(host.process, "model_call_refused", agent_id="lost")
    assert len(refused) < 5, "an agent can fill the log"
    assert (refused[0]["level"], refused[0]["status"], refused[0]["code"]) == ("warning", 404, "model_not_found")
    agent.chat("hi", session_id=fresh("s"), model="unreachable")
    [there] = ends(host.process, "model_call_failed", model="unreachable")[:1]
    assert (there["status"], there["code"]) == ("failed", "provider_unreachable")


def test_both_servers_write_one_shape(house: tuple[Runtime, Host]) -> None:
    for process in (house[0].process, house[1].process):
        for line in lines(process):
            assert tuple(line)[:4] == IDS
            assert line["level"] in ("info", "warning", "error")
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00", line["timestamp"])


@pytest.mark.parametrize(("wanted", "text"), [("auto", True), ("json", False)])
def test_a_person_at_a_terminal_can_read_it(tmp_path: Path, wanted: str, text: bool) -> None:
    ours, theirs = pty.openpty()
    with ScriptedProvider([Fail(401, "bad\nkey \x1b[2J")]) as provider:
        settings = Runtime(provider, tmp_path / "data", AGENT_LOG_FORMAT=wanted, AGENT_MODEL_ATTEMPTS=1).env
        with subprocess.Popen(SERVE, env={**os.environ, **settings}, stdout=theirs, stderr=theirs) as child:
            try:
                os.close(theirs)
                seen = read_until(ours, rb"http://127\.0\.0\.1:\d+")
                url = re.findall(rb"http://127\.0\.0\.1:\d+", seen)[-1].decode()
                agent = Runtime(provider, tmp_path / "data")
                agent.url = url
                with agent.client() as http:
                    assert http.post("/chat", json={"message": "hi"}).status_code == 502
                seen += read_until(ours, rb"turn ended[^\n]*\n")
            finally:
                child.kill()
    os.close(ours)
    told = next(line for line in seen.decode().splitlines() if "turn ended" in line)
    assert told.startswith("{") is not text
    assert b"\x1b" not in seen
    if text:
        assert re.match(r"\d\d:\d\d:\d\d WARNING turn ended  status=failed code=model_auth ", told), told


def read_until(terminal: int, pattern: bytes) -> bytes:
    """What the terminal shows, up to and with the pattern."""
    seen = b""
    while not re.search(pattern, seen):
        seen += os.read(terminal, 4096)
    return seen
