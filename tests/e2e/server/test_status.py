"""Who the agent is and how it does: `/status`, `/capabilities`, the probes, and who may ask."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent_testing import Fail, Hang, Say

from ..conftest import Start
from ..live import TOKEN, Runtime, assert_problem, assignment, eventually, fresh, in_background

STATUS = {
    *("agent_id", "role", "state", "current_task", "capabilities", "uptime_seconds", "tasks_completed"),
    *("tasks_failed", "context_tokens", "context_max", "context_pct", "last_iteration_ts", "iterations_since_boot"),
    *("sessions", "queue_limit", "channel", "mesh", "limits"),
}
TOOLS = {"read", "write", "edit", "glob", "grep", "bash"}
ROUTES = [
    ("POST", "/task"),
    ("GET", "/task/x"),
    ("GET", "/task/x/stream"),
    ("POST", "/task/x/cancel"),
    ("GET", "/result"),
    ("POST", "/chat"),
    ("POST", "/chat/stream"),
    ("POST", "/chat/reset"),
    ("GET", "/status"),
    ("GET", "/metrics"),
    ("GET", "/capabilities"),
    ("GET", "/openapi.json"),
    ("GET", "/no-such-route"),
]


def test_status_of_an_idle_agent(agent: Runtime) -> None:
    eventually(lambda: agent.status()["state"] == "idle")
    status = agent.status()
    assert status.keys() >= STATUS
    assert (status["agent_id"], status["role"]) == ("agent", "assistant")
    assert status["current_task"] is None
    assert status["sessions"] == {"running": 0, "queued": 0, "waiting": 0}
    assert set(status["capabilities"]) >= TOOLS
    assert status["queue_limit"] == 100
    assert status["limits"]["max_iterations"] == 20
    assert status["limits"]["max_rounds"] == 30
    assert status["limits"]["max_concurrent_turns"] == 4
    assert status["limits"]["tool_timeout_seconds"] == 120
    assert status["channel"] == "off"
    eventually(lambda: agent.status()["uptime_seconds"] > status["uptime_seconds"] > 0)


def test_status_shows_the_work(agent: Runtime) -> None:
    before = agent.status()
    agent.provider.script.replace([Hang(after=1), Fail(401)])
    task_id = agent.assign()
    agent.provider.wait_for(1)
    status = agent.status()
    assert (status["state"], status["current_task"]) == ("working", task_id)
    assert status["sessions"]["running"] == 1
    agent.provider.release()
    agent.result(task_id)
    agent.run()
    after = agent.status()
    assert after["tasks_completed"] == before["tasks_completed"] + 1
    assert after["tasks_failed"] == before["tasks_failed"] + 1
    assert after["iterations_since_boot"] > before["iterations_since_boot"]
    assert after["last_iteration_ts"] >= (before["last_iteration_ts"] or 0)
    assert after["mesh"] == "reachable"


def test_the_window_is_that_of_the_model_in_use(agent: Runtime) -> None:
    own = agent.status()["context_max"]
    agent.provider.script.replace([Hang(after=1, reply=Say("hi", usage={"prompt_tokens": 6400})), Say("over")])
    thread, _ = in_background(lambda: agent.chat("hello", session_id=fresh("s"), model="priced"))
    agent.provider.wait_for(1)
    status = agent.status()
    assert (status["model"], status["context_max"]) == ("priced", 64_000)
    assert status["limits"]["context_limit"] == 64_000
    agent.provider.release()
    thread.join()
    eventually(lambda: agent.status()["state"] == "idle")
    assert agent.status()["context_pct"] == pytest.approx(10, abs=0.01)
    assert agent.chat("hello", session_id=fresh("s")).status_code == 200
    assert (agent.status()["model"], agent.status()["context_max"]) == ("default", own)


def test_context_use_is_that_of_the_last_call(agent: Runtime) -> None:
    usage = {"prompt_tokens": 12_000, "completion_tokens": 800}
    agent.provider.script.replace([Say("so", usage=usage)])
    agent.run()
    status = agent.status()
    assert status["context_tokens"] == 12_800
    assert status["context_pct"] == pytest.approx(100 * 12_800 / status["context_max"], abs=0.01)


def test_capabilities_are_the_agents_card(agent: Runtime) -> None:
    card = agent.get("/capabilities").json()
    assert card.keys() >= {
        *("agent_id", "role", "tools", "tool_definitions", "tool_sources"),
        *("skills", "packages", "models", "protocols"),
    }
    assert set(card["tools"]) >= TOOLS
    assert [tool["function"]["name"] for tool in card["tool_definitions"]] == card["tools"]
    for tool in card["tool_definitions"]:
        assert tool["type"] == "function"
        assert tool["function"]["description"]
        assert tool["function"]["parameters"]["type"] == "object"
    assert {card["tool_sources"][name] for name in TOOLS} == {"builtin"}
    assert set(card["models"]) == {"default", "priced"}


def test_probes_answer_without_a_token(agent: Runtime) -> None:
    with agent.client(Accept="*/*") as stranger:
        assert stranger.get("/healthz").json() == {"status": "ok"}
        ready = stranger.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {"ready": True, "reasons": []}


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_answer_head(agent: Runtime, path: str) -> None:
    with agent.client(Accept="*/*") as stranger:
        reply = stranger.head(path)
    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers["content-type"] == "application/json"


def test_metrics_are_what_prometheus_reads(agent: Runtime) -> None:
    agent.provider.script.replace([Say("hello")])
    assert agent.chat("hi", session_id=fresh("s")).status_code == 200
    reply = agent.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    assert families["agent_ready"].samples[0].value == 1
    assert families["agent_steps"].samples[0].value >= 1
    assert {one.labels["state"] for one in families["agent_sessions"].samples} == {"running", "queued", "waiting"}
    assert families["agent_info"].samples[0].labels["agent_id"] == agent.status()["agent_id"]
    assert families["agent_context_tokens"].samples[0].labels["model"] == "default"


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", TOKEN, f"Basic {TOKEN}", "Bearer", "Bearer sésame"])
def test_everything_else_needs_the_token(agent: Runtime, authorization: str | None) -> None:
    headers = [] if authorization is None else [(b"Authorization", authorization.encode())]
    with agent.client(Accept="*/*") as stranger:
        for method, path in ROUTES:
            reply = stranger.request(method, path, headers=headers)
            assert_problem(reply, 401, "unauthorized")
            assert reply.headers["www-authenticate"].startswith("Bearer")
            assert ("this is not the server's token: " in reply.json()["detail"]) == (authorization is not None)


def test_the_scheme_of_the_token_is_read_as_http_reads_it(agent: Runtime) -> None:
    with agent.client(Authorization=f"bearer {TOKEN}") as caller:
        assert caller.get("/status").status_code == 200


def test_the_api_describes_itself(agent: Runtime) -> None:
    described = agent.get("/openapi.json").json()
    assert {"/task", "/chat", "/result", "/status", "/capabilities"} <= described["paths"].keys()


@pytest.mark.slow
def test_without_a_token_a_loopback_server_is_open(start: Start) -> None:
    open_one = start(AGENT_TOKEN="", AGENT_ID="open-one", AGENT_ROLE="librarian", AGENT_CONTEXT_LIMIT=4096)
    with open_one.client(Accept="*/*") as anybody:
        status = anybody.get("/status").json()
        assert (status["agent_id"], status["role"], status["context_max"]) == ("open-one", "librarian", 4096)
        assert anybody.post("/task", json=assignment()).status_code == 202
    assert "loopback" in open_one.process.output(), "the server says that it has no token"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_page_from_elsewhere_gives_a_server_without_token_no_work(start: Start, headers: dict[str, str]) -> None:
    with start(AGENT_TOKEN="").client() as anyone:
        work = {"content-type": "text/plain", **headers}
        assert_problem(anyone.post("/task", content=b"{}", headers=work), 403, "cross_site")
        assert anyone.get("/status", headers={"Origin": "http://localhost:3000"}).status_code == 200


def test_a_page_from_elsewhere_gets_no_work_done_by_a_proxy_that_adds_the_token(agent: Runtime) -> None:
    agent.provider.clear()
    headers = {"content-type": "text/plain", "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
    assert_problem(agent.http.post("/chat", content=b'{"message": "hello"}', headers=headers), 403, "cross_site")
    assert agent.provider.completions == []
    for site in ("same-origin", "same-site", "none"):
        assert agent.http.get("/status", headers={"Sec-Fetch-Site": site}).status_code == 200
