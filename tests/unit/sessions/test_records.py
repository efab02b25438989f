"""Rows in, rows out: sessions, messages, the ledger, and what a crash leaves behind."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import Usage
from agent_common.protocol import chunks as c
from agent_runtime.sessions import branches, history, interrupt_turn, replay, replay_parts, rows, text_of, tool_name
from agent_runtime.sessions.record.parts import RETRY, MessageParts
from agent_runtime.sessions.record.repair import CALL_ERROR
from tests.unit.sessions.support import SESSION, TURN, begin, opened, parts, recorder, text


async def test_a_session_is_read_as_it_was_stored(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await begin(database)
        await database.write(lambda db: rows.set_model(db, "ses_1", "big", 1100))
        found = await database.read(lambda db: history.session(db, "ses_1"))
        assert found == history.SessionRow(
            "ses_1", "operator", "default", "big", "a prompt", "digest", ("read", "bash"), False, (), 1000
        )
        assert await database.read(lambda db: history.session_of_alias(db, "operator", "main")) == "ses_1"
        assert await database.read(lambda db: history.session_of_alias(db, "eve", "main")) is None
        await database.write(lambda db: rows.archive(db, "ses_1", 1200))
        assert await database.read(lambda db: history.session_of_alias(db, "operator", "main")) is None
        assert await database.read(lambda db: history.session(db, "none")) is None
        archived = await database.read(lambda db: history.session(db, "ses_1"))
        assert archived is not None
        assert archived.archived


async def test_the_tables_have_their_fixed_shape(tmp_path: Path) -> None:
    with opened(tmp_path) as database:

        def columns(connection: sqlite3.Connection) -> dict[str, list[str]]:
            tables = ("chat_sessions", "chat_messages", "chat_parts")
            return {name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")] for name in tables}

        found = await database.read(columns)
    assert found["chat_messages"] == ["id", "session_id", "role", "metadata_json", "created_at", "updated_at"]
    assert found["chat_parts"] == [
        *("id", "message_id", "session_id", "index", "type", "data_json", "tool_call_id", "tool_state"),
        *("created_at", "updated_at"),
    ]
    assert found["chat_sessions"] == [
        *("id", "agent", "workspace_root", "model_json", "parent_id", "parent_message_id", "permissions_json"),
        *("metadata_json", "prompt_tokens", "completion_tokens", "reasoning_tokens", "cache_read", "cache_write"),
        *("total_tokens", "cost_usd", "created_at", "updated_at", "archived_at"),
    ]


async def test_a_message_waits_unseen_and_takes_its_place_when_it_fires(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await begin(database)
        later = replace(TURN, message_id="msg_0", reply_id="msg_9", parts=(), queued=True, client_id="mine")
        await database.write(lambda db: rows.insert_turn(db, later, 1001))
        listed = await database.read(lambda db: list(history.messages(db, "ses_1")))
        assert [(message.id, message.shown) for message in listed] == [("msg_1", True), ("msg_0", False)]
        await database.write(lambda db: rows.start_turn(db, "msg_0", 1500))
        listed = await database.read(lambda db: list(history.messages(db, "ses_1")))
        assert [(message.id, message.shown, message.created_at) for message in listed][1] == ("msg_0", True, 1500)
        assert "queue_enqueued_at" in listed[1].metadata
        found = await database.read(lambda db: branches.find_turn(db, "ses_1", "mine"))
        assert found is not None
        assert (found.state, found.outcome) == ("running", None)
        await database.write(lambda db: rows.end_turn(db, "msg_0", {"status": "complete"}, 1600))
        ended = await database.read(lambda db: history.turn(db, "msg_0"))
        assert ended is not None
        assert (ended.state, ended.outcome) == ("ended", {"status": "complete"})
        assert [turn.message_id for turn in await database.read(history.unfinished)] == ["msg_1"]
        assert await database.read(lambda db: history.turn(db, "msg_7")) is None
        assert await database.read(lambda db: history.message(db, "msg_7")) is None


async def test_a_client_id_is_taken_once(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await begin(database, replace(TURN, client_id="mine"))
        again = replace(TURN, message_id="msg_3", client_id="mine")
        with pytest.raises(sqlite3.IntegrityError):
            await database.write(lambda db: rows.insert_turn(db, again, 1))
        assert await database.read(lambda db: history.message(db, "msg_3")) is None


async def test_usage_is_summed(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await begin(database)
        for usage in (Usage(input=1, output=2, cost_usd=0.5), Usage(reasoning=4, cache_read=8, cache_write=16)):
            await database.write(lambda db, usage=usage: rows.add_usage(db, "ses_1", usage, 2))
        row = await database.read(lambda db: db.execute("SELECT * FROM chat_sessions").fetchone())
        names = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cache_read", "cache_write", "total_tokens")
        assert [row[name] for name in names] == [1, 2, 4, 8, 16, 31]
        assert row["cost_usd"] == 0.5


NAMES: dict[str, Any] = {"toolCallId": "c1", "toolName": "read"}
STREAMING = [c.ToolInputStart(**NAMES)]
AVAILABLE = [*STREAMING, c.ToolInputAvailable(**NAMES, input={"path": "a"})]
DONE = [*AVAILABLE, c.ToolOutputAvailable(toolCallId="c1", output={"type": "output"})]
FAILED = [*AVAILABLE, c.ToolOutputError(toolCallId="c1", errorText="no")]


@pytest.mark.parametrize(
    ("left", "expected"),
    [
        (STREAMING, {"state": "output-error", "errorText": CALL_ERROR, "input": {}}),
        (AVAILABLE, {"state": "output-error", "errorText": CALL_ERROR, "input": {"path": "a"}}),
        (DONE, {"state": "output-available", "input": {"path": "a"}, "output": {"type": "output"}}),
        (FAILED, {"state": "output-error", "input": {"path": "a"}, "errorText": "no"}),
    ],
)
async def test_what_a_crash_leaves_of_a_call(tmp_path: Path, left: list[c.Chunk], expected: dict[str, Any]) -> None:
    with opened(tmp_path) as database:
        await begin(database)
        saver = recorder(database)
        for chunk in [c.StartStep(), *text("t", "so ", "far", end=False), *left]:
            saver.record(chunk)
        saver.flush()
        await database.write(lambda _: None)
        (turn,) = await database.read(history.unfinished)
        outcome = await database.write(lambda db: interrupt_turn(db, turn, 9000), durable=True)
        found = await parts(database)
        assert found[1] == {"type": "text", "text": "so far", "state": "done"}
        assert found[2] == {"type": "tool-read", "toolCallId": "c1", **expected}
        assert outcome["error_code"] == "interrupted"
        assert await database.read(history.unfinished) == []
        reply = await database.read(lambda db: history.message(db, "msg_2"))
        assert reply is not None
        said = list(replay(reply))
        assert isinstance(said[-2], c.ErrorChunk)
        assert said[-1] == c.Finish(finishReason="error", messageMetadata=reply.metadata)
        columns = await database.read(lambda db: db.execute("SELECT tool_state FROM chat_parts").fetchall())
        assert expected["state"] in [row[0] for row in columns]


@pytest.mark.parametrize("now", [9000, 1000, 5])
async def test_a_crash_before_the_first_chunk_leaves_an_empty_reply(tmp_path: Path, now: int) -> None:
    """Behind its message, whether the clock went back meanwhile or not."""
    with opened(tmp_path) as database:
        await begin(database, now=1000)
        (turn,) = await database.read(history.unfinished)
        await database.write(lambda db: interrupt_turn(db, turn, now))
        found = await database.read(lambda db: list(history.messages(db, "ses_1")))
        assert [message.role for message in found] == ["user", "assistant"]
        reply = await database.read(lambda db: history.message(db, "msg_2"))
        assert reply is not None
        assert reply.parts == []
        assert [type(chunk) for chunk in replay(reply)] == [c.Start, c.ErrorChunk, c.Finish]


async def test_a_wait_for_a_human_survives_a_crash(tmp_path: Path) -> None:
    with opened(tmp_path) as database:
        await begin(database)
        asked = {"type": "tool-bash", "toolCallId": "c1", "state": "approval-requested", "input": {}}
        row = rows.MessageRow("msg_2", "ses_1", "assistant", {}, 1, 1)
        await database.write(lambda db: rows.upsert_message(db, row))
        part = rows.PartRow("prt_5", "msg_2", "ses_1", 0, asked, 1)
        await database.write(lambda db: rows.upsert_part(db, part))
        (turn,) = await database.read(history.unfinished)
        await database.write(lambda db: interrupt_turn(db, turn, 2))
        assert await parts(database) == [asked]


def reduced(said: list[c.Chunk]) -> list[dict[str, Any]]:
    message = MessageParts(lambda _: "prt")
    for chunk in said:
        message.apply(chunk)
    return [part.data for part in message.parts]


def test_a_replay_builds_the_same_message() -> None:
    said: list[c.Chunk] = [
        c.Start(messageId="m"),
        c.StartStep(),
        *text("t", "hello"),
        *(c.ReasoningStart(id="r"), c.ReasoningDelta(id="r", delta="hm"), c.ReasoningEnd(id="r")),
        *DONE,
        c.FinishStep(),
        c.StartStep(),
        c.DataChunk(type="data-note", id="n", data=1),
        c.DataChunk(type="data-note", id="n", data=2),
        c.ToolInputAvailable(toolCallId="c2", toolName="mcp", input={}, dynamic=True),
        c.ToolOutputError(toolCallId="c2", errorText="no", dynamic=True),
        c.FinishStep(),
    ]
    whole = reduced(said)
    reply = history.Message("m", "assistant", {"finish_reason": "stop"}, whole, 1)
    again = list(replay(reply))
    assert reduced(again) == whole
    assert [type(chunk) for chunk in again].count(c.FinishStep) == 2
    assert again[-1] == c.Finish(finishReason="stop", messageMetadata={"finish_reason": "stop"})
    for chunk in again:
        c.chunk_adapter().validate_json(chunk.to_sse().removeprefix(b"data: "))


APPROVAL = c.DataChunk(type="data-approval", id="a1", data={"reason": "a rule asks", "code": "K7"})
ASKED = [*AVAILABLE, APPROVAL, c.ToolApprovalRequest(approvalId="a1", toolCallId="c1")]
OTHER_ASKED = [
    c.ToolInputAvailable(toolCallId="c2", toolName="read", input={}),
    *(c.DataChunk(type="data-approval", id="a2", data={}), c.ToolApprovalRequest(approvalId="a2", toolCallId="c2")),
]


@pytest.mark.parametrize("then", [[], OTHER_ASKED])
def test_a_replay_says_what_is_shown_with_an_approval_before_its_request(then: list[c.Chunk]) -> None:
    said = [c.StartStep(), *ASKED, *then]
    again = list(replay_parts(reduced(said)))
    assert again == [chunk for chunk in said if not isinstance(chunk, c.ToolInputStart)]


def test_a_replay_of_a_denied_call_has_its_request_before_the_denial() -> None:
    start, call, about = reduced([c.StartStep(), *ASKED])
    denied = c.ToolOutputDenied(toolCallId="c1")
    call["state"] = "output-denied"
    assert list(replay_parts([start, call, about]))[2:] == [*ASKED[2:], denied]
    assert list(replay_parts([start, about, call]))[1:] == [APPROVAL, ASKED[1], ASKED[-1], denied], "as in an import"
    del about["id"]
    assert list(replay_parts([start, call, about]))[2:4] == [ASKED[-1], denied], "without what is shown with it"


def test_a_replay_of_a_cancelled_turn_ends_with_its_abort() -> None:
    outcome = {"error_code": "cancelled", "error": "enough"}
    reply = history.Message("m", "assistant", {"outcome": outcome, "finish_reason": "abort"}, [], 1)
    assert list(replay(reply))[-1] == c.Abort(reason="enough")


def test_the_answer_is_the_text_of_the_last_step_that_has_any() -> None:
    step, said = {"type": "step-start"}, lambda text: {"type": "text", "text": text}
    assert text_of([]) == ""
    assert text_of([step, said("a"), said("b"), step, {"type": "tool-x"}]) == "ab"
    assert text_of([step, said("a"), step, said("c")]) == "c"
    assert text_of([step, said('{"half'), {"type": RETRY}, said("whole")]) == "whole"
    assert text_of([step, said("first"), step, said("half"), {"type": RETRY}]) == "first"


def test_whose_part_it_is() -> None:
    assert tool_name({"type": "tool-read"}) == "read"
    assert tool_name({"type": "dynamic-tool", "toolName": "mcp"}) == "mcp"
    assert tool_name({"type": "text"}) is None


def test_a_call_may_have_the_name_of_a_text() -> None:
    names: dict[str, Any] = {"toolCallId": "t1", "toolName": "read"}
    said = [
        c.ToolInputAvailable(**names, input={}),
        *text("t1", "hi"),
        c.ToolOutputAvailable(toolCallId="t1", output=1),
    ]
    assert [part["state"] for part in reduced(said)] == ["output-available", "done"]


def test_the_row_of_a_session_keeps_its_prompt() -> None:
    assert json.loads(rows.model_json("m")) == {"provider_id": "mesh", "model_id": "m"}
    assert SESSION.prompt == "a prompt"
