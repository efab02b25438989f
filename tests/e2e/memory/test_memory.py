"""Memory over live HTTP: what one session leaves is found by a later one, of the same person and nobody else's."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path
from typing import Any

import pytest

from agent_runtime.memory.sources.file_scan import MAX_FILES
from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import Runtime, eventually, fresh

SOON = 5.0
"""Seconds in which a file is found on a busy machine."""
DENTIST = "Ada's dentist is Dr. Weber in Mill Lane."


def make(runtime: Runtime, *calls: Call, **more: Any) -> list[Any]:
    """A turn that makes these calls in one step, in a new session unless one is named; their data, or error texts."""
    runtime.provider.script.replace([Say("", calls=calls), Say("over")])
    reply = runtime.chat("work", **{"session_id": fresh("s"), **more})
    assert reply.status_code == 200, reply.text
    return outputs(reply.json())


def outputs(reply: dict[str, Any]) -> list[Any]:
    found = [one["output"] for one in reply["tool_outputs"]]
    return [one["data"] if isinstance(one, dict) else one for one in found]


def save(runtime: Runtime, text: str, **more: Any) -> str:
    (done,) = make(runtime, Call("memory_save", {"text": text}), **more)
    return done["id"]


def search(runtime: Runtime, query: str, **more: Any) -> list[dict[str, Any]]:
    (done,) = make(runtime, Call("memory_search", {"query": query, "limit": 20}), **more)
    return done["results"]


def say(agent: Runtime, message: str, answer: str, **more: Any) -> None:
    agent.provider.script.replace([Say(answer)])
    assert agent.chat(message, **more).status_code == 200


@pytest.mark.slow
def test_a_fact_outlives_its_session_and_the_server(start: Start) -> None:
    agent = start()
    fact = save(agent, DENTIST, user="ada")
    agent.process.kill9()
    agent.start()
    (found,) = search(agent, "which dentist do I go to?", user="ada")
    assert (found["id"], found["text"], found["source"], found["by"]) == (fact, DENTIST, "fact", "agent")
    assert search(agent, "which dentist do I go to?", user="bob") == []
    assert search(agent, "dentist") == []


def test_nobody_reaches_what_is_anothers(agent: Runtime) -> None:
    ada, bob = fresh("ada"), fresh("bob")
    fact = save(agent, "The walnut tree was planted in 1998.", user=ada)
    headers = {"X-Agent-User": bob}
    calls = (Call("memory_forget", {"id": fact}), Call("memory_save", {"text": "The walnut tree was planted in 1998."}))
    agent.provider.script.replace([Say("", calls=calls), Say("over")])
    reply = agent.post("/chat", {"message": "work", "session_id": fresh("s")}, **headers)
    forgotten, saved = outputs(reply.json())
    (unknown,) = make(agent, Call("memory_forget", {"id": "mem_0000000000000000"}), user=bob)
    assert forgotten == unknown.replace("mem_0000000000000000", fact)
    assert f"there is no fact {fact}" in forgotten
    assert saved["known"] is False
    assert saved["id"] != fact
    assert [one["id"] for one in search(agent, "walnut tree", user=ada)] == [fact]
    say(agent, "Where is the key?", "The key is below the walnut tree.", session_id=fresh("s"), user=ada)
    assert [one["id"] for one in search(agent, "walnut tree", user=bob)] == [saved["id"]]
    assert {one["source"].split()[0] for one in search(agent, "walnut tree", user=ada)} == {"fact", "session"}
    (gone,) = make(agent, Call("memory_forget", {"id": fact}), user=ada)
    assert gone == {"forgotten": "The walnut tree was planted in 1998."}
    assert [one["source"].split()[0] for one in search(agent, "walnut tree", user=ada)] == ["session"]


def test_what_was_said_is_found_in_later_sessions_until_it_is_taken_back(agent: Runtime) -> None:
    user, session = fresh("user"), fresh("s")
    say(agent, "When was the bridge built?", "The bridge was built in 1887.", session_id=session, user=user)
    assert search(agent, "bridge 1887", user=user, session_id=session) == [], "the model still sees it"
    found = search(agent, "bridge 1887", user=user)
    assert [(one["text"], one["by"]) for one in found] == [
        ("The bridge was built in 1887.", "assistant"),
        ("When was the bridge built?", "user"),
    ]
    first = agent.http.get(f"/sessions/{session}/messages", headers={"X-Agent-User": user}).json()["messages"][0]
    headers = {"X-Agent-User": user}
    assert agent.post(f"/sessions/{session}/rewind", {"message_id": first["id"]}, **headers).status_code == 200
    assert search(agent, "bridge 1887", user=user) == []
    assert agent.post(f"/sessions/{session}/unrewind", {}, **headers).status_code == 200
    assert len(search(agent, "bridge 1887", user=user)) == 2
    assert agent.http.delete(f"/sessions/{session}", headers=headers).is_success
    assert search(agent, "bridge 1887", user=user) == []


def test_a_reset_leaves_what_was_said_to_memory_and_a_deletion_does_not(agent: Runtime) -> None:
    user, name = fresh("user"), fresh("s")
    headers = {"X-Agent-User": user}
    say(agent, "When was the lighthouse built?", "It was built in 1911.", session_id=name, user=user)
    old = agent.post("/chat/reset", {"session_id": name}, **headers).json()["archived"]
    eventually(lambda: len(search(agent, "lighthouse 1911", user=user, session_id=name)) == 2)
    found = search(agent, "lighthouse 1911", user=user, session_id=name)
    assert {one["source"] for one in found} == {f"session {old}"}
    assert search(agent, "lighthouse 1911", user=fresh("user")) == []
    assert agent.http.delete(f"/sessions/{old}", headers=headers).is_success
    assert search(agent, "lighthouse 1911", user=user) == []
    agent.post("/chat/reset", {"session_id": old}, **headers)
    assert search(agent, "lighthouse 1911", user=user) == []


def test_notes_in_the_workspace_are_found_soon_after_they_are_written(agent: Runtime) -> None:
    name = fresh("note")
    text = f"# Deploying\n\n## {name}\n\nRun the migrations before the web servers.\n"
    make(agent, Call("write", {"path": f"notes/{name}.md", "content": text}))
    eventually(lambda: search(agent, f"{name} migrations", user=fresh("user")), SOON)
    (found,) = search(agent, f"{name} migrations", user=fresh("user"))
    assert found["source"] == f"file notes/{name}.md"
    (agent.data_dir / "workspace" / "notes" / f"{name}.md").unlink()


@pytest.mark.slow
def test_among_too_many_files_what_is_gone_is_not_found_and_what_is_missing_is_told(start: Start) -> None:
    agent = start()
    folder = agent.data_dir / "workspace" / "many"
    folder.mkdir()
    first, last = folder / "00000.md", folder / "99999.md"
    first.write_text("The walnut tree is in front.")
    last.write_text("The hazel bush is at the end.")
    eventually(lambda: search(agent, "walnut") and search(agent, "hazel"), SOON)
    for number in range(1, MAX_FILES + 1):
        (folder / f"{number:05}.md").touch()
    first.unlink()

    def told() -> str:
        """What an answer without results says."""
        (answer,) = make(agent, Call("memory_search", {"query": "walnut hazel"}))
        return "" if answer["results"] else answer["note"]

    note = eventually(lambda: note if "more Markdown than memory can hold" in (note := told()) else None)
    assert "use grep" in note


def test_what_rules_keep_from_reading_memory_does_not_tell(start: Start, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "permissions.yaml").write_text('rules: [{permission: fs.read, pattern: "private/*", action: deny}]')
    agent = start()
    for folder in ("private", "public"):
        place = agent.data_dir / "workspace" / folder
        place.mkdir()
        (place / "notes.md").write_text(f"The walnut tree is {folder}.")
    assert [one["source"] for one in search(agent, "walnut tree")] == ["file public/notes.md"]


def test_who_may_only_look_finds_and_saves_nothing(agent: Runtime) -> None:
    user = fresh("user")
    save(agent, DENTIST, user=user)
    assert [one["text"] for one in search(agent, "dentist", user=user, agent="plan")] == [DENTIST]
    (refused,) = make(agent, Call("memory_save", {"text": "More."}), user=user, agent="plan")
    assert "there is no tool 'memory_save'" in refused
    assert "memory_save" not in agent.provider.completions[-1].tool_names


def test_a_fact_that_was_acknowledged_survives_a_crash(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace([Say("", calls=(Call("memory_save", {"text": DENTIST}),)), Hang()])
    agent.chat("work", session_id=fresh("s"), wait=0)
    provider.wait_for(2)  # the model was told that it is saved
    agent.process.kill9()
    provider.release()
    agent.start()
    assert [one["text"] for one in search(agent, "dentist")] == [DENTIST]


def test_many_at_once_save_and_find(start: Start, provider: ScriptedProvider) -> None:
    agent = start(AGENT_MAX_CONCURRENT_TURNS=8)
    provider.script.replace(
        lambda request: (
            Say("over")
            if request.messages[-1]["role"] == "tool"
            else Say("", calls=(Call("memory_save", {"text": request.last_user_text}),))
        )
    )

    def work(number: int) -> int:
        told = {
            "message": f"Fact {number} is about walnuts.",
            "session_id": f"s-{number}",
            "user": f"user-{number % 4}",
        }
        return agent.post("/chat", told).status_code

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(40))) == {200}
    for user in range(4):
        facts = {one["text"] for one in search(agent, "walnuts", user=f"user-{user}") if one["source"] == "fact"}
        assert facts == {f"Fact {number} is about walnuts." for number in range(user, 40, 4)}


@pytest.mark.slow
def test_with_an_embedding_model_facts_get_vectors_and_the_past_follows(
    start: Start, provider: ScriptedProvider
) -> None:
    agent = start()
    save(agent, DENTIST)
    agent.sigterm()
    assert agent.process.wait(10) == 0
    agent.env["AGENT_EMBEDDING_MODEL"] = "default"
    agent.start()
    assert [one["text"] for one in search(agent, "dentist")] == [DENTIST]
    eventually(lambda: agent.sql("SELECT count(*) FROM memory_vectors")[0][0] == 1, SOON)
    fact = save(agent, "The walnut tree was planted in 1998.")
    eventually(lambda: agent.sql("SELECT count(*) FROM memory_vectors")[0][0] == 2, SOON)
    assert [one["id"] for one in search(agent, "walnut tree")] == [fact]
    make(agent, Call("memory_forget", {"id": fact}))
    assert agent.sql("SELECT count(*) FROM memory_vectors")[0][0] == 1
