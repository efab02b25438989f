"""`/pending` and the replay of `/events`: nothing that waits for a person is lost, whatever breaks."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from agent_testing import Call, Say

from ..conftest import Start
from ..live import Runtime, assert_problem, eventually, fresh
from .test_events import ASK, Watcher, watch


def pending(agent: Runtime, header: str | None = None, **query: Any) -> dict[str, Any]:
    reply = agent.http.get("/pending", params=query, headers={"X-Agent-User": header} if header else {})
    assert reply.status_code == 200, reply.text
    return reply.json()


def ids(agent: Runtime, header: str | None = None, **query: Any) -> list[str]:
    return [row["id"] for row in pending(agent, header, **query)["pending"]]


def ask(agent: Runtime, user: str, call_id: str) -> str:
    """A session of that user that waits for the answer to a question."""
    session = fresh("s")
    agent.provider.script.replace([Call("question", ASK, id=call_id)], otherwise=Say("done"))
    reply = agent.chat("paint", session_id=session, user=user)
    assert (reply.status_code, reply.json()["status"]) == (202, "waiting")
    return session


def test_a_kill_takes_no_question_away(start: Start) -> None:
    agent = start()
    session = ask(agent, "ann", "call_1")
    [before] = pending(agent)["pending"]
    assert (before["session_id"], before["user"], before["tool"], before["input"]) == (session, "ann", "question", ASK)
    with watch(agent) as response:
        last = Watcher(response).last_id
    os.kill(agent.process.pid, signal.SIGKILL)
    agent.start()
    assert pending(agent)["pending"] == [before]
    with watch(agent, **{"last-event-id": str(last)}) as response:
        watcher = Watcher(response)
        assert watcher.next()["type"] == "events-lost"
        answer = {"id": before["id"], "answers": [["blue"]]}
        assert agent.post(f"/chat/{session}/answer", answer, **{"X-Agent-User": "ann"}).status_code == 200
        assert watcher.next()["type"] == "approval-resolved"
        assert watcher.ids[-1] > last
    assert pending(agent) == {"pending": []}


def test_each_user_sees_their_own(agent: Runtime) -> None:
    ann, bob = fresh("ann"), fresh("bob")
    sessions = {user: ask(agent, user, f"call_{user}") for user in (ann, bob)}
    assert (ids(agent, ann), ids(agent, user=bob)) == ([f"call_{ann}"], [f"call_{bob}"])
    everybodys = ids(agent)
    assert everybodys.index(f"call_{ann}") < everybodys.index(f"call_{bob}")
    refused = agent.http.get("/pending", params={"user": bob}, headers={"X-Agent-User": ann})
    assert_problem(refused, 422, "invalid_request", "user")
    for user, session in sessions.items():
        agent.post(f"/chat/{session}/abort", {}, **{"X-Agent-User": user})
    assert not {f"call_{ann}", f"call_{bob}"} & {*ids(agent)}


@pytest.mark.parametrize(("query", "field"), [({"limit": 0}, "limit"), ({"after": "x"}, "after"), ({"x": "y"}, "x")])
def test_a_wrong_query_is_named(agent: Runtime, query: dict[str, str | int], field: str) -> None:
    assert_problem(agent.http.get("/pending", params=query), 422, "invalid_request", field)


def test_what_was_missed_comes_again_and_only_to_its_user(agent: Runtime) -> None:
    ann, bob = fresh("ann"), fresh("bob")
    with watch(agent) as response:
        last = Watcher(response).last_id
    asked = {user: ask(agent, user, call_id) for user, call_id in ((ann, "of_ann"), (bob, "of_bob"))}
    position = {"last-event-id": str(last)}
    with watch(agent, **position) as everybodys, watch(agent, **position, **{"x-agent-user": bob}) as his:
        everyone, own = Watcher(everybodys), Watcher(his)
        told = [everyone.next() for _ in range(4)]
        assert [(one["type"], one["user"]) for one in told] == [
            (kind, user) for user in (ann, bob) for kind in ("turn-started", "approval-requested")
        ]
        assert [own.next(), own.next()] == told[2:]
        assert own.ids == everyone.ids[2:]
    for user, session in asked.items():
        agent.post(f"/chat/{session}/abort", {}, **{"X-Agent-User": user})


def test_sessions_are_listed_by_their_state(agent: Runtime) -> None:
    ann = fresh("ann")
    waiting = ask(agent, ann, "call_w")
    agent.provider.script.replace([Say("fine")])
    done = fresh("s")
    assert agent.chat("hello", session_id=done, user=ann).status_code == 200

    def listed(**query: Any) -> list[tuple[str, str]]:
        reply = agent.http.get("/sessions", params=query, headers={"X-Agent-User": ann})
        assert reply.status_code == 200, reply.text
        return [(row["alias"], row["status"]["state"]) for row in reply.json()["sessions"]]

    assert listed() == [(done, "idle"), (waiting, "waiting_on_user_input")]
    assert listed(state="waiting") == listed(state="waiting_on_user_input") == [(waiting, "waiting_on_user_input")]
    assert listed(state="idle") == [(done, "idle")]
    assert [listed(state=state) for state in ("busy", "error", "retrying", "waiting_on_approval")] == [[]] * 4
    agent.post(f"/chat/{waiting}/abort", {}, **{"X-Agent-User": ann})
    eventually(lambda: len(listed(state="idle")) == 2)
    assert_problem(agent.http.get("/sessions", params={"state": "asleep"}), 422, "invalid_request", "state")
