"""Metadata that frontends read by their own rules: assistant-ui takes `steps` for an array."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from agent_testing import Call, Say, ScriptedProvider

from ..conftest import Start
from ..live import fresh


@pytest.mark.slow
def test_no_metadata_has_a_number_of_steps_under_the_name_of_an_array(start: Start, provider: ScriptedProvider) -> None:
    agent, session = start(), fresh("s")
    provider.script.replace([Call("glob", {"pattern": "*.none"}), Say("done")])
    with agent.stream("POST", "/chat/stream", {"message": "go", "session_id": session, "message_id": "m"}) as stream:
        chunks = stream.rest()
    told = [metadata for chunk in chunks if isinstance(metadata := getattr(chunk, "messageMetadata", None), dict)]
    assert [one for one in told if "steps" in one] == []
    assert [one["step_count"] for one in told if "step_count" in one] == [1, 2]
    agent.sigterm()
    assert agent.process.wait(15) == 0
    with closing(sqlite3.connect(agent.data_dir / "agent.db", isolation_level=None)) as connection:
        old = "json_set(json_remove(metadata_json, '$.step_count'), '$.steps', 2)"  # as older versions kept it
        connection.execute(f"UPDATE chat_messages SET metadata_json = {old} WHERE role = 'assistant'")  # noqa: S608
    agent.start()
    kept: list[dict[str, Any]] = agent.get(f"/sessions/{session}/messages").json()["messages"]
    assert not [one for one in kept if "steps" in one["metadata"]]
    body = {"message": "go", "session_id": session, "message_id": "m"}
    with agent.stream("POST", "/chat/stream", body) as stream:
        assert '"steps"' not in json.dumps([chunk.model_dump() for chunk in stream.rest()])
