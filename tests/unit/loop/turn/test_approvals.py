"""Approvals: what a rule wants a person's yes for runs after that yes, once, and never without it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol import Usage
from agent_runtime.errors import Conflict, InvalidRequest
from agent_runtime.loop import HumanAnswer, Turn, UsageBudget
from agent_runtime.ports import ToolContext
from agent_runtime.tools import Tool
from tests.unit.loop.people import (
    ASK,
    Frontend,
    Hands,
    answer,
    approval_of,
    assert_fit_for_a_provider,
    calls_of,
    decide,
    heard,
    shown,
    stands,
    stored,
    waits,
)
from tests.unit.loop.support import FakeModel, World, assignment, call, say, settled

DEPLOY = ("c", "deploy", '{"to": "prod"}')


def world(path: Path, model: FakeModel, hands: Hands, *more: str, **how: Any) -> World:
    return World(path, model, catalog=hands.catalog("deploy", *more, ask=["deploy"]), **how)


def calls_that_wait(turn: Turn) -> list[str]:
    return [one.call_id for one in turn.human_wait.requests.values()]


async def test_a_call_waits_for_a_yes_and_runs_once(tmp_path: Path) -> None:
    model, hands = FakeModel([call(DEPLOY, text="Shall I?"), say("done")]), Hands()
    async with world(tmp_path, model, hands) as it:
        turn = await waits(await it.send("go"))
        assert not hands.ran
        status = await stands(it, turn)
        assert status["state"] == "waiting_on_approval"
        [waiting] = turn.human_wait.requests.values()
        asked = {"id": waiting.id, "kind": "approval", "tool_call_id": "c", "tool": "deploy", "input": {"to": "prod"}}
        whole_tool = {"permission": "deploy", "pattern": "*", "action": "allow"}
        assert status["pending"] == [{**asked, "always": [whole_tool], "code": waiting.code, "agent": "default"}]
        before = Frontend().read(await heard(turn, through_waits=False))
        assert calls_of(before.parts)["c"]["state"] == "approval-requested"
        assert calls_of(before.parts)["c"]["approval"] == {"id": waiting.id}
        await decide(it, turn, "c", "once")
        await it.ended(turn)
        assert hands.ran == ["c"]
        part = calls_of(turn.end.reply_parts)["c"]
        assert part["state"] == "output-available"
        assert part["output"]["data"] == {"did": "deploy", "to": "prod"}
        assert turn.end.reply_parts == (await stored(it, turn)).parts
        assert Frontend().read(await heard(turn)).shown() == shown(turn.end.reply_parts)
        assert_fit_for_a_provider(model.requests[1][1])


async def test_once_is_once(tmp_path: Path) -> None:
    model, hands = FakeModel([call(DEPLOY), call(("c2", "deploy", "{}")), say("done")]), Hands()
    async with world(tmp_path, model, hands) as it:
        turn = await waits(await it.send("go"))
        await decide(it, turn, "c", "once")
        await asyncio.wait_for(_asked_again(turn), 10)
        assert calls_that_wait(turn) == ["c2"]
        assert hands.ran == ["c"]
        await decide(it, turn, "c2", "once")
        await it.ended(turn)
        assert hands.ran == ["c", "c2"]


async def _asked_again(turn: Turn) -> None:
    await turn.paused_or_ended.wait()
    assert turn.state == "waiting"


async def test_always_holds_for_the_session_and_over_a_restart_and_nowhere_else(tmp_path: Path) -> None:
    model, hands = FakeModel([call(DEPLOY), call(("c2", "deploy", "{}")), say("done")]), Hands()
    async with world(tmp_path, model, hands) as it:
        turn = await waits(await it.send("go", session="mine"))
        await decide(it, turn, "c", "always")
        await it.ended(turn)
        assert hands.ran == ["c", "c2"]
        rows = await it.rows("SELECT permissions_json FROM chat_sessions WHERE id = ?", turn.session.id)
        (rule,) = json.loads(rows[0][0])
        assert (rule["permission"], rule["action"], rule["source"]) == ("deploy", "allow", "session")
    model = FakeModel([call(("c3", "deploy", "{}")), say("done"), call(("c4", "deploy", "{}"))])
    async with world(tmp_path, model, hands) as it:
        await it.ended(await it.send("again", session="mine"))
        assert hands.ran == ["c", "c2", "c3"]
        await waits(await it.send("go", session="other"))
        assert hands.ran == ["c", "c2", "c3"]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_no_is_told_to_the_model_and_nothing_runs(tmp_path: Path, *, restarted: bool) -> None:
    hands = Hands()
    async with world(tmp_path, FakeModel([call(DEPLOY), say("a pity")]), hands) as it:
        turn = await waits(await it.send("go", message_id="m"))
        if not restarted:
            await _refuse(it, turn)
    if restarted:
        async with world(tmp_path, FakeModel([say("a pity")]), hands) as it:
            await _refuse(it, await it.send("go", message_id="m"))
    assert not hands.ran


async def _refuse(it: World, turn: Turn) -> None:
    asked = approval_of(turn, "c")
    await decide(it, turn, "c", "reject", "too risky")
    await it.ended(turn)
    part = calls_of(turn.end.reply_parts)["c"]
    assert part["state"] == "output-denied"
    assert part["approval"] == {"id": asked, "approved": False, "reason": "too risky"}
    assert turn.end.reply_parts == (await stored(it, turn)).parts
    seen = Frontend().read(await heard(turn))
    assert "tool-output-denied" in seen.kinds
    assert seen.shown() == shown(turn.end.reply_parts)
    sent = assert_fit_for_a_provider(it.model.requests[-1][1])
    told = json.loads(sent[-1]["content"])
    assert told["type"] == "error"
    assert "too risky" in told["error_text"]
    with pytest.raises(Conflict):
        await it.answers.submit("operator", turn.session.id, HumanAnswer(asked, decision="once"))


async def test_a_wrong_decision_leaves_the_request_open(tmp_path: Path) -> None:
    hands = Hands()
    async with world(tmp_path, FakeModel([call(DEPLOY)]), hands) as it:
        turn = await waits(await it.send("go"))
        with pytest.raises(InvalidRequest):
            await answer(it, turn, approval_of(turn, "c"), "yes")
        for name in ("c", "approval_c", "approval_x"):
            with pytest.raises(Conflict):
                await it.answers.submit("operator", turn.session.id, HumanAnswer(name, decision="once"))
        assert turn.state == "waiting"
        assert calls_that_wait(turn) == ["c"]
        answers = [HumanAnswer(approval_of(turn, "c"), decision=how) for how in ("once", "reject", "once")]
        given = await asyncio.gather(
            *(it.answers.submit("operator", turn.session.id, one) for one in answers), return_exceptions=True
        )
        assert sum(one is turn for one in given) == 1
        await it.ended(turn)
        assert hands.ran == (["c"] if given[1] is not turn else [])


async def test_an_approved_call_runs_once_though_the_runtime_stops_before_it_could(tmp_path: Path) -> None:
    gate = asyncio.Event()
    hands = Hands()
    async with world(tmp_path, FakeModel([call(DEPLOY), [gate.wait()]]), hands, slots=1) as it:
        turn = await waits(await it.send("go", session="mine"))
        it.model.asked.clear()
        await it.send("block", session="other")
        await it.model.asked.wait()
        await decide(it, turn, "c", "once")
        assert not hands.ran
        message_id = turn.message_id
    for model in (FakeModel([say("done")]), FakeModel()):
        async with world(tmp_path, model, hands) as it:
            found = it.admission.queues.turn(message_id)
            if found is not None:
                await it.ended(found)
                assert calls_of(found.end.reply_parts)["c"]["state"] == "output-available"
        assert hands.ran == ["c"]


async def test_an_approved_call_that_a_stop_breaks_off_is_not_run_again(tmp_path: Path) -> None:
    hands = Hands(gates={"deploy": asyncio.Event()})
    async with world(tmp_path, FakeModel([call(DEPLOY)]), hands) as it:
        turn = await waits(await it.send("go"))
        await decide(it, turn, "c", "once")
        await hands.entered.wait()
        message_id, reply = turn.message_id, turn
    async with world(tmp_path, FakeModel(), hands) as it:
        assert it.admission.queues.turn(message_id) is None
        part = calls_of((await stored(it, reply)).parts)["c"]
        assert part["state"] == "output-error"
        assert "outcome unknown" in part["errorText"]
        await it.ended(await it.send("and now?"))
        assert_fit_for_a_provider(it.model.requests[-1][1])
    assert hands.ran == ["c"]


async def test_several_requests_of_one_step_are_answered_one_by_one(tmp_path: Path) -> None:
    hands = Hands()
    model = FakeModel([call(DEPLOY, ("q", "question", ASK), ("free", "look", "{}"), ("c2", "deploy", "{}")), say("ok")])
    async with world(tmp_path, model, hands, "look") as it:
        turn = await waits(await it.send("go"))
        assert hands.ran == ["free"], "what needs nobody has run"
        assert calls_that_wait(turn) == ["c", "q", "c2"]
        assert (await stands(it, turn))["state"] == "waiting_on_user_input"
        await decide(it, turn, "c2", "reject")
        await answer(it, turn, "q", "red")
        assert (await stands(it, turn))["state"] == "waiting_on_approval"
        assert hands.ran == ["free"]
        await decide(it, turn, "c", "once")
        await it.ended(turn)
        assert hands.ran == ["free", "c"]
        sent = assert_fit_for_a_provider(model.requests[1][1])
        assert [one["tool_call_id"] for one in sent if one["role"] == "tool"] == ["c", "q", "free", "c2"]
        assert Frontend().read(await heard(turn)).shown() == shown(turn.end.reply_parts)


async def test_a_turn_that_goes_on_can_be_aborted_before_the_approved_call_runs(tmp_path: Path) -> None:
    gate, hands = asyncio.Event(), Hands()
    async with world(tmp_path, FakeModel([call(DEPLOY), [gate.wait(), *say("x")]]), hands, slots=1) as it:
        turn = await waits(await it.send("go", session="mine"))
        it.model.asked.clear()
        blocker = await it.send("block", session="other")
        await it.model.asked.wait()
        await decide(it, turn, "c", "once")
        assert turn.state == "resuming"
        await it.admission.stop(turn)
        assert await settled(it, turn) == "ended"
        assert calls_of(turn.end.reply_parts)["c"]["state"] == "output-error"
        gate.set()
        await it.ended(blocker, await it.send("next", session="mine"))
        assert not hands.ran
        assert_fit_for_a_provider(it.model.requests[-1][1])


async def test_nobody_approves_for_a_task(tmp_path: Path) -> None:
    model, hands = FakeModel([call(DEPLOY), say("I could not")]), Hands()
    async with world(tmp_path, model, hands) as it:
        turn = (await it.tasks.assign(assignment(), "operator")).turn
        assert turn is not None
        await it.ended(turn)
        assert not hands.ran
        assert calls_of(turn.end.reply_parts)["c"]["state"] == "output-error"
        assert b"needs a human's approval" in model.requests[1][1][-1]


async def test_a_rejected_call_is_no_broken_one(tmp_path: Path) -> None:
    """The model keeps its tools: only calls that cannot be read count towards the end of its patience."""
    model = FakeModel([call(DEPLOY), call(("b", "deploy", "{")), say("done")])
    async with world(tmp_path, model, Hands()) as it:
        turn = await waits(await it.send("go"))
        await decide(it, turn, "c", "reject")
        await it.ended(turn)
        assert turn.end.outcome is not None
        assert turn.end.outcome.limit is None
        assert [request.tool_choice for request, _ in model.requests] == ["auto", "auto", "auto"]


async def test_an_answer_of_the_wrong_kind_from_a_frontend_changes_nothing(tmp_path: Path) -> None:
    """Several answers in one request count together or not at all."""
    model, hands = FakeModel([call(("q", "question", ASK), DEPLOY), say("done")]), Hands()
    async with world(tmp_path, model, hands) as it:
        turn = await waits(await it.send("go"))
        given = [HumanAnswer("q", answers=[["blue"]]), HumanAnswer(approval_of(turn, "c"), answers=[["yes"]])]
        with pytest.raises(InvalidRequest):
            await it.answers.submit_all("operator", None, given, turn.request.reply_id)
        assert calls_that_wait(turn) == ["q", "c"]


async def test_what_helpers_have_used_is_not_forgotten_over_a_wait(tmp_path: Path) -> None:
    """Agents that are called beside a call that waits have spent what the turn's record does not know of."""

    class Helped(Hands):
        def tool(self, name: str, **more: Any) -> Tool:
            plain = super().tool(name, **more)

            async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
                if name == "help":
                    turn = it.admission.queues.turn(context.message_id)
                    assert turn is not None
                    UsageBudget(turn.budget.limits, caller_budget=turn.budget).spend(Usage(input=1000))
                return await plain.run(arguments, context)

            return replace(plain, run=run)

    model = FakeModel([call(("h", "help", "{}"), DEPLOY), say("done")])
    async with world(tmp_path, model, Helped(), "help") as it:
        turn = await waits(await it.send("go"))
        await decide(it, turn, "c", "once")
        await it.ended(turn)
        assert turn.budget.usage.input == 10 + 1000 + 10
        assert (await stored(it, turn)).metadata["usage"]["input"] == 1020


async def test_an_approval_is_of_the_arguments_that_were_shown(tmp_path: Path) -> None:
    """The record is not what it was when the person saw the call."""
    hands, change = (
        Hands(),
        "UPDATE chat_parts SET data_json = replace(data_json, 'prod', 'test') WHERE tool_call_id = 'c'",
    )
    async with world(tmp_path, FakeModel([call(DEPLOY)]), hands) as it:
        turn = await waits(await it.send("go", message_id="m"))
        shown = approval_of(turn, "c")
        await it.database.write(lambda connection: connection.execute(change), durable=True)
    async with world(tmp_path, FakeModel([say("done")]), hands) as it:
        turn = await waits(await it.send("go", message_id="m"))
        with pytest.raises(Conflict):
            await it.answers.submit("operator", turn.session.id, HumanAnswer(shown, decision="once"))
        assert not hands.ran
        await decide(it, turn, "c", "once")
        await it.ended(turn)
    assert not hands.ran, "the approval that is recorded is of other arguments"


async def test_what_an_earlier_version_asked_is_answered_by_its_id(tmp_path: Path) -> None:
    hands = Hands()
    async with world(tmp_path, FakeModel([call(DEPLOY)]), hands) as it:
        turn = await waits(await it.send("go", message_id="m"))
        asked = approval_of(turn, "c")

        def age(connection: sqlite3.Connection) -> None:
            connection.execute("DELETE FROM chat_parts WHERE type = 'data-approval'")
            connection.execute("UPDATE chat_parts SET data_json = replace(data_json, ?, 'approval_c')", (asked,))

        await it.database.write(age, durable=True)
    async with world(tmp_path, FakeModel([say("done")]), hands) as it:
        turn = await waits(await it.send("go", message_id="m"))
        assert turn.pending()[0]["id"] == "approval_c"
        with pytest.raises(Conflict, match="answer it by its id"):
            await it.send("yes", on_busy="answer")
        await decide(it, turn, "c", "once")
        await it.ended(turn)
    assert hands.ran == ["c"]
