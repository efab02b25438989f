"""A card that waits, while the conversation goes elsewhere: its answer runs the call that was shown, there and once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider
from tests.e2e.live import Runtime, eventually, fresh

RULES = [{"permission": "write", "pattern": "*", "action": "ask"}]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with ScriptedProvider() as provider, Runtime(provider, tmp_path_factory.mktemp("waiting")) as runtime:
        yield runtime


def waiting(agent: Runtime, *paths: str) -> tuple[str, str, list[dict[str, Any]]]:
    """A session that waits for a person; the id of its last message, and the cards."""
    session, message = fresh("s"), fresh("m")
    eventually(lambda: not agent.status()["sessions"]["running"])
    calls = [Call("write", {"path": path, "content": "x"}, id=f"w{at}") for at, path in enumerate(paths)]
    agent.provider.script.replace([Say("hello"), Say(calls=tuple(calls)), Say("done")])
    agent.chat("hi", session_id=session)
    assert agent.http.put(f"/sessions/{session}/permissions", json={"rules": RULES}).status_code == 200
    reply = agent.chat("save it", session_id=session, message_id=message)
    assert reply.status_code == 202, reply.text
    return session, message, reply.json()["pending"]


def approve(agent: Runtime, session: str, card: dict[str, Any]) -> int:
    return agent.post(f"/chat/{session}/answer", {"id": card["id"], "decision": "once"}).status_code


def written(agent: Runtime, path: str) -> bool:
    return Path(agent.data_dir, "workspace", path).exists()


def test_what_was_said_stays_while_a_card_waits(agent: Runtime) -> None:
    session, message, [card] = waiting(agent, "kept.txt")
    for path, body in (("rewind", {"message_id": message}), ("fork", {}), ("compact", {}), ("unrewind", {})):
        assert agent.post(f"/sessions/{session}/{path}", body).status_code == 409, path
    edited = {"id": message, "role": "user", "parts": [{"type": "text", "text": "another"}]}
    body = {"id": session, "messages": [edited], "trigger": "submit-message", "messageId": message, "on_busy": "reject"}
    assert agent.post("/chat", body).status_code == 409
    assert approve(agent, session, card) == 200
    eventually(lambda: written(agent, "kept.txt"))


def test_a_card_whose_turn_was_stopped_is_dead_in_every_copy_and_life(agent: Runtime) -> None:
    session, message, [card] = waiting(agent, "dead.txt")
    assert agent.post(f"/chat/{session}/abort", {}).status_code == 200
    copies = [session, agent.post(f"/sessions/{session}/fork", {}).json()["id"]]
    assert agent.post(f"/sessions/{session}/rewind", {"message_id": message}).status_code == 200
    assert agent.post(f"/sessions/{session}/unrewind", {}).status_code == 200
    for _ in range(2):
        assert [approve(agent, copy, card) for copy in copies] == [409, 409]
        for copy in copies:
            agent.provider.script.replace([Say("what?")])
            assert agent.chat(f"yes {card['code']}", session_id=copy).json()["response"] == "what?"
        agent.start()
    assert not written(agent, "dead.txt")


def test_two_cards_of_the_same_call_are_answered_one_by_one(agent: Runtime) -> None:
    session, _, cards = waiting(agent, "twice.txt", "twice.txt")
    assert len({card["id"] for card in cards}) == len({card["code"] for card in cards}) == 2
    assert approve(agent, session, cards[0]) == 200
    assert approve(agent, session, cards[0]) == 409
    assert not written(agent, "twice.txt"), "the other one still waits"
    assert approve(agent, session, cards[1]) == 200


def test_a_rule_that_forbids_beats_a_card(agent: Runtime) -> None:
    session, _, [card] = waiting(agent, "forbidden.txt")
    deny = [{"permission": "write", "pattern": "*", "action": "deny"}]
    assert agent.http.put(f"/sessions/{session}/permissions", json={"rules": deny}).status_code == 200
    assert approve(agent, session, card) in (200, 409)
    eventually(lambda: agent.get(f"/sessions/{session}").json()["status"]["state"] == "idle")
    assert not written(agent, "forbidden.txt")


def test_a_card_for_a_skill_is_for_the_code_that_was_there(agent: Runtime) -> None:
    session = fresh("s")
    save_report(agent, "first", version=1)
    agent.provider.script.replace([Say("hello"), Call("report", {}), Say("done")])
    agent.chat("hi", session_id=session)
    ask = [{"permission": "skill:report", "pattern": "*", "action": "ask"}]
    assert agent.http.put(f"/sessions/{session}/permissions", json={"rules": ask}).status_code == 200
    reply = agent.chat("report", session_id=session)
    [card] = reply.json()["pending"]
    save_report(agent, "second", version=2)
    assert approve(agent, session, card) == 200
    eventually(lambda: [one["id"] for one in pending(agent, session)] not in ([], [card["id"]]))
    assert "second" not in agent.get(f"/sessions/{session}/messages").text
    [again] = pending(agent, session)
    assert approve(agent, session, again) == 200
    eventually(lambda: "second" in agent.get(f"/sessions/{session}/messages").text)


def save_report(agent: Runtime, says: str, *, version: int) -> None:
    code = f"@skill\ndef report() -> str:\n    'Say which version runs.'\n    return {says!r}\n"
    Path(agent.data_dir, "skills", "report.py").write_text(code)
    wanted = {"name": "report", "version": version, "state": "active"}
    eventually(lambda: any(wanted.items() <= one.items() for one in agent.get("/capabilities").json()["skills"]))


def pending(agent: Runtime, session: str) -> list[dict[str, Any]]:
    return [one for one in agent.get("/pending").json()["pending"] if one["session_id"] == session]
