"""A server on the database that an older program left behind, killed in the middle of its work."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from agent_runtime.testing import Say, ScriptedProvider

from .live import Runtime, types

FIXTURE = Path(__file__).parents[1] / "fixtures" / "schema_v2.sql"
ID = re.compile(r"(ses|msg|prt)_[0-9a-f]{12}[0-9A-Za-z]{14}")


def test_old_results_are_served_and_queued_work_is_run(provider: ScriptedProvider, tmp_path: Path) -> None:
    agent = Runtime(provider, tmp_path / "data", AGENT_MAX_CONCURRENT_TURNS=1)
    agent.data_dir.mkdir()
    with closing(sqlite3.connect(agent.data_dir / "agent.db")) as connection:
        connection.executescript(FIXTURE.read_text())
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
