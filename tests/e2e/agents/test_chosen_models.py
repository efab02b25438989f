"""A caller chooses a model: a wrong name is told at once, and a session is never stuck with one that does not work.
What the model's provider refuses has a code of its own, with the time to wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_testing import Call, Fail, Say, ScriptedProvider
from tests.integration.host.live import Host, catalog

from ..conftest import Start
from ..live import Runtime, assert_problem, eventually, fresh, in_background

pytestmark = pytest.mark.slow

WRITE = Call("write", {"path": "a.txt", "content": "a"}, id="w")


@pytest.fixture(scope="module")
def behind_the_mesh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder = tmp_path_factory.mktemp("mesh")
    with (
        ScriptedProvider(models=("big-1",)) as provider,
        Host(folder / "host", MESH_MODELS=catalog(folder, provider), UPSTREAM_KEY="sk") as host,
    ):
        reach = {"AGENT_LLM_BASE_URL": "", "AGENT_MESH_URL": host.url, "AGENT_MESH_TOKEN": host.token("chooser")}
        with Runtime(provider, folder / "agent", **reach) as agent:
            yield agent


def test_an_unknown_model_of_the_mesh_is_refused_with_the_list(behind_the_mesh: Runtime) -> None:
    agent, session = behind_the_mesh, fresh("s")
    agent.provider.script.replace([Say("hello"), Say("again")])
    for reply in (
        agent.chat("hi", session_id=session, model="gpt-9"),
        agent.post("/chat/steer", {"message": "hi", "session_id": session, "model": "gpt-9"}),
    ):
        told = assert_problem(reply, 422, "unknown_model", "model")
        assert "default, demo, plain, unpriced, unreachable" in told["detail"]
    assert_problem(agent.get(f"/sessions/{session}"), 404, "unknown_session")
    assert agent.chat("hi", session_id=session, model="plain").json()["response"] == "hello"
    assert_problem(agent.http.patch(f"/sessions/{session}", json={"model": "gpt-9"}), 422, "unknown_model", "model")
    assert agent.get(f"/sessions/{session}").json()["model"] == "plain"
    assert agent.chat("hi", session_id=session).json()["response"] == "again"
    assert agent.provider.completions[-1].fields["model"] == "plain"


@pytest.mark.parametrize(
    "refusal",
    [
        Fail(404, "The model `gpt-9` does not exist or you do not have access to it.", code="model_not_found"),
        Fail(404, "model 'gpt-9' not found, try pulling it first"),
        Fail(400, "gpt-9 is not a valid model ID"),
    ],
)
def test_an_endpoint_that_knows_no_such_model_is_told_alike_and_the_session_goes_on(
    agent: Runtime, refusal: Fail
) -> None:
    """The list of a plain endpoint may leave out names that it takes, so it is asked."""
    session = fresh("s")
    agent.provider.script.replace([refusal, Say("hello")])
    told = assert_problem(agent.chat("hi", session_id=session, model="gpt-9"), 422, "unknown_model")
    assert "default, priced" in told["detail"]
    assert agent.get(f"/sessions/{session}").json()["model"] == "default"
    assert agent.chat("hi", session_id=session).json()["response"] == "hello"
    assert agent.provider.completions[-1].fields["model"] == "default"


def test_a_session_keeps_a_model_that_has_answered(start: Start, provider: ScriptedProvider) -> None:
    agent, session = start(AGENT_MAX_CONCURRENT_TURNS=1), fresh("s")
    provider.script.replace([WRITE, Fail(401, "no"), Say("two")])
    agent.chat("hi", session_id=session, model="priced")
    assert agent.get(f"/sessions/{session}").json()["model"] == "priced"
    agent.process.kill9()
    agent.start()
    assert agent.get(f"/sessions/{session}").json()["model"] == "priced"
    assert agent.chat("go on", session_id=session).json()["response"] == "two"
    assert provider.completions[-1].fields["model"] == "priced"


def test_a_queued_message_uses_the_model_that_the_one_before_has_proved(agent: Runtime) -> None:
    for refused, used in ((False, "priced"), (True, "default")):
        agent.provider.script.replace([Fail(401, "no") if refused else Say("one", wait=0.3), Say("two")])
        session = fresh("s")
        thread, got = in_background(lambda s=session: agent.chat("a", session_id=s, model="priced"))
        eventually(lambda s=session: agent.get(f"/sessions/{s}").status_code == 200)
        second = agent.chat("b", session_id=session)
        thread.join(10)
        assert (got[0].status_code, second.json()["response"]) == (502 if refused else 200, "two")
        assert agent.provider.completions[-1].fields["model"] == used


@pytest.mark.parametrize(
    ("fault", "code", "wait"),
    [
        (Fail(429, "slow down", retry_after=90), "model_rate_limited", 90),
        (Fail(429, "no more money", code="insufficient_quota"), "model_quota", None),
        (Fail(402, "Insufficient credits"), "model_quota", None),
        (Fail(400, "Your credit balance is too low to access the API"), "model_quota", None),
        (Fail(503, "down for an hour", retry_after=3600), "model_unavailable", 3600),
    ],
)
def test_rate_limit_quota_and_outage_are_told_apart(agent: Runtime, fault: Fail, code: str, wait: float | None) -> None:
    agent.provider.script.replace([fault, fault])
    reply = agent.chat("hi", session_id=fresh("s"))
    told = assert_problem(reply, 502, code)
    assert told.get("retry_after") == wait
    assert reply.headers.get("retry-after") == (None if wait is None else str(wait))
    agent.provider.script.replace([fault, fault])
    result = agent.run()
    assert (result["error_code"], result.get("retry_after")) == (code, wait)


def test_an_endpoint_that_cannot_be_reached_is_named(start: Start) -> None:
    agent = start(AGENT_LLM_BASE_URL="http://127.0.0.1:9/v1", AGENT_MODEL_ATTEMPTS=1)
    told = assert_problem(agent.chat("hi", session_id=fresh("s")), 502, "model_unavailable")
    assert "http://127.0.0.1:9/v1" in told["detail"]


def test_the_host_names_the_provider_that_cannot_be_reached(behind_the_mesh: Runtime) -> None:
    told = assert_problem(
        behind_the_mesh.chat("hi", session_id=fresh("s"), model="unreachable"), 502, "model_unavailable"
    )
    assert "http://127.0.0.1:1/v1" in told["detail"]
