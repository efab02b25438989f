"""A server on the database that an older program left behind, killed in the middle of its work."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from agent_runtime.runtime import MIGRATIONS
from agent_testing import Call, Say, ScriptedProvider
from tests.integration.host.live import Host
from tests.old_databases import open_old_database

from ..live import Runtime, eventually, fresh, types

MONTH, HOUR = timedelta(days=30), timedelta(hours=1)
ID = re.compile(r"(ses|msg|prt)_[0-9a-f]{12}[0-9A-Za-z]{14}")


@pytest.mark.slow
def test_old_results_are_served_and_queued_work_is_run(provider: ScriptedProvider, tmp_path: Path) -> None:
    agent = Runtime(provider, tmp_path / "data", AGENT_MAX_CONCURRENT_TURNS=1)
    agent.data_dir.mkdir()
    open_old_database("schema_v2.sql", agent.data_dir / "agent.db", age=MONTH)
    provider.script.replace(lambda _: Say("done by the new program"))
    with agent:
        assert agent.result("complete")["result"] == {"text": '{"answer": 42}'}
        assert agent.result("failed")["error_code"] == "model_config"
        assert agent.result("cancelled")["status"] == agent.result("dropped")["status"] == "cancelled"
        assert agent.result("interrupted")["result"]["text"] == "interrupted after "
        assert agent.result("running")["status"] == "timeout", "it went on, and its deadline had long passed"
        with agent.stream("GET", "/task/complete/stream") as stream:
            assert types(stream.rest())[-1] == "finish"

        for task_id in ("queued-1", "queued-2"):
            assert agent.result(task_id)["result"] == {"text": "done by the new program"}
        waited = {"message": "Are you there?", "session_id": "talk", "message_id": "m-3"}
        assert agent.chat(**waited).json()["response"] == "done by the new program"
        asked = [request.last_user_text for request in provider.completions]
        order = [next(n for n, text in enumerate(asked) if word in text) for word in ("queued-1", "there?", "queued-2")]
        assert order == sorted(order)
        [conversation] = [request for request in provider.completions if "Are you there?" in request.last_user_text]
        assert "Hello to you." in str(conversation.messages)

        assert agent.chat("And now?", session_id="talk").json()["response"] == "done by the new program"
        assert "It is written." in str(provider.completions[-1].messages)
        agent.still_works()
        for table in ("chat_sessions", "chat_messages", "chat_parts"):
            ids = [row["id"] for row in agent.sql(f"SELECT id FROM {table}")]  # noqa: S608
            assert len(ids) > 8
            assert all(ID.fullmatch(found) for found in ids), ids


def test_an_older_talk_goes_on_and_gets_what_is_new(provider: ScriptedProvider, tmp_path: Path) -> None:
    agent = Runtime(provider, tmp_path / "data")
    agent.data_dir.mkdir()
    open_old_database("schema_v3.sql", agent.data_dir / "agent.db", age=MONTH)
    with agent:
        assert agent.result("complete")["result"] == {"text": '{"answer": 42}'}
        assert agent.result("running")["status"] in ("complete", "timeout")  # its deadline counts from when it began
        code = '@skill\ndef twice(number: int) -> int:\n    """Twice a number."""\n    return 2 * number\n'
        provider.script.replace([
            Call("create_skill", {"name": "twice", "code": code, "test": {"number": 2}}),
            Call("twice", {"number": 21}),
            Say("42"),
        ])  # fmt: skip
        reply = agent.chat("And now?", session_id="talk", agent="default").json()
        assert [one["state"] for one in reply["tool_outputs"]] == ["output-available"] * 2
        first, *_, last = provider.completions[-3:]
        assert "Hello to you." in str(first.messages)
        shown = len([name for name in first.tool_names if name != "twice"])
        assert last.tool_names[:shown] == first.tool_names[:shown]
        assert "twice" in last.tool_names
        provider.script.replace([Say("As a plan again.")])
        assert agent.chat("Plan more", session_id="talk", agent="plan").json()["response"] == "As a plan again."
        assert agent.sql("PRAGMA user_version")[0][0] == len(MIGRATIONS)


def test_what_was_said_before_there_was_a_memory_is_found(provider: ScriptedProvider, tmp_path: Path) -> None:
    agent = Runtime(provider, tmp_path / "data")
    agent.data_dir.mkdir()
    open_old_database("schema_v4.sql", agent.data_dir / "agent.db", age=HOUR)

    def found(user: str) -> set[str]:
        query = {"query": "bridge ferry tunnel harbour lighthouse", "limit": 20}
        provider.script.replace([Call("memory_search", query), Say("over")])
        [output] = agent.chat("search", user=user, session_id=fresh("s")).json()["tool_outputs"]
        return {one["text"] for one in output["output"]["data"]["results"]}

    bridges = {"When was the bridge built?", "The bridge was built in 1887."}
    bridges |= {"Who built it?", "The bridge was built by the Meier brothers."}
    with agent:
        # What was taken back or put away is gone, a fork says nothing twice, and a turn that waits is not over.
        assert found("ada") - {"Who built it?"} == bridges - {"Who built it?"} | {"Tell me of the lighthouse."}
        assert found("bob") == {"What do you know of the harbour?", "The harbour was dredged in May."}
        provider.script.replace([Call("memory_save", {"text": "The bridge is painted blue."}), Say("saved")])
        assert agent.chat("Remember it", user="ada", session_id=fresh("s")).json()["response"] == "saved"
        assert "The bridge is painted blue." in found("ada")
        assert agent.sql("PRAGMA user_version")[0][0] == len(MIGRATIONS)


def test_a_database_of_the_version_before_opens_and_its_work_continues(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    """Version 9 holds a compacted conversation, memory, a task, a turn that waits for an answer, two turns that were
    cut off, and one that was queued when the server was killed."""
    agent = Runtime(provider, tmp_path / "data", AGENT_MAX_CONCURRENT_TURNS=2)
    agent.data_dir.mkdir()
    open_old_database("agent_v9.db.gz", agent.data_dir / "agent.db", age=HOUR)
    provider.script.replace(lambda _: Say("done by the new program"))
    with agent:
        assert agent.result("complete")["result"] == {"text": '{"answer": 42}'}
        for task_id in ("cut-off", "cut-off-2", "queued"):
            assert agent.result(task_id)["status"] in ("complete", "timeout"), task_id
        answered = agent.http.post(
            "/chat/paint/answer", json={"id": "q", "answers": [["blue"]]}, headers={"X-Agent-User": "ada"}
        )
        assert answered.status_code == 200, answered.text
        painted = {"message": "Paint it", "session_id": "paint", "user": "ada", "message_id": "m-9"}
        assert agent.chat(**painted).json()["response"] == "done by the new program"
        assert agent.chat("And now?", session_id="talk", user="ada").status_code == 200
        assert "In 1887 the bridge was built; it is blue." in str(provider.completions[-1].messages)
        provider.script.replace([Call("memory_search", {"query": "colour of the bridge"}), Say("over")])
        [output] = agent.chat("search", user="ada", session_id=fresh("s")).json()["tool_outputs"]
        assert "The bridge is painted blue." in {one["text"] for one in output["output"]["data"]["results"]}
        agent.still_works()


def test_a_host_database_of_the_version_before_opens_and_its_work_continues(tmp_path: Path) -> None:
    """Revision 5 holds work that was done, work that is queued, acknowledged constraints and a quarantine."""
    open_old_database("host_r0005.db.gz", tmp_path / "mesh.db", age=HOUR)
    with Host(tmp_path) as host:
        done = host.operator.get("/work/hello").json()
        assert (done["status"], done["result"]["status"]) == ("resulted", "completed")
        assert host.operator.get("/usage").json()["sums"][0]["usage"]["input"] == 4496
        assert {entry["type"] for entry in host.operator.get("/audit").json()["entries"]} >= {"request", "result"}
        assert host.operator.post("/workspaces/q/start").json()["code"] == "quarantined"
        assert host.operator.post("/workspaces/b/start").status_code == 200
        eventually(lambda: host.operator.get("/work/later").json()["status"] == "resulted")
        assert host.operator.get("/work/later").json()["result"]["status"] == "completed"
