"""What the loop tells those who keep learnings: failures of every turn, and corrections of people only."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_runtime.context import Step, View
from agent_runtime.context.provider_messages import ToolCallRecord
from agent_runtime.learnings import NoLearnings
from agent_runtime.loop.core.corrections import detect_correction
from agent_runtime.ports import Correction, ToolContext, ToolResult
from tests.unit.loop.people import Hands, decide, waits
from tests.unit.loop.support import PATIENCE, FakeModel, FakeTools, World, assignment, call, new_turn, say, until


@dataclass
class Notes(NoLearnings):
    """Fills ports.Learnings."""

    seen: list[tuple[str, str | None, str]] = field(default_factory=list[tuple[str, str | None, str]])
    """Tool, error and session of every call that was answered."""
    heard: list[Correction] = field(default_factory=list[Correction])

    def observe(self, tool: str, arguments: Mapping[str, Any], result: ToolResult, context: ToolContext) -> None:
        self.seen.append((tool, result.error_text, context.session_id))

    def record_correction(self, correction: Correction) -> None:
        self.heard.append(correction)


async def broken(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    return ToolResult("error", error_text="it broke", metadata={"kind": "backend"})


async def test_every_answered_call_is_shown(tmp_path: Path) -> None:
    notes = Notes()
    model = FakeModel([call(("a", "bad", "{}"), ("b", "echo", "{}"), ("c", "bad", "{no json")), say("over")])
    tools = FakeTools()
    tools.tools["bad"] = broken
    async with World(tmp_path, model, tools=tools, learnings=notes) as it:
        turn = await it.send("go")
        await it.ended(turn)
    session = turn.session.id
    assert ("bad", "it broke", session) in notes.seen
    assert ("echo", None, session) in notes.seen
    ((tool, error, _),) = [one for one in notes.seen if one[1] not in ("it broke", None)]
    assert tool == "bad"
    assert (error or "").startswith("the arguments are not valid JSON")
    assert len(notes.seen) == 3


async def test_a_call_that_is_broken_off_is_no_failure(tmp_path: Path) -> None:
    notes, hands = Notes(), Hands(gates={"slow": asyncio.Event()})
    async with World(
        tmp_path, FakeModel([call(("c", "slow", "{}"))]), catalog=hands.catalog("slow"), learnings=notes
    ) as it:
        turn = await it.send("go")
        await asyncio.wait_for(hands.entered.wait(), PATIENCE)
        await it.admission.stop(turn)
    assert not notes.seen


async def test_a_message_that_contradicts_is_a_correction(tmp_path: Path) -> None:
    notes = Notes()
    model = FakeModel([say("I ran ", "npm install.")])
    async with World(tmp_path, model, learnings=notes) as it:
        for text in ("No, is what I begin with", "No, use pnpm!", "thank you", "now do it for real"):
            await it.ended(await it.send(text))
        (heard,) = notes.heard
        assert (heard.text, heard.source, heard.principal) == ("No, use pnpm!", "person (message)", "operator")
        assert heard.answer_to == "I ran npm install."
        assert heard.session_id == (await it.send("bye")).session.id


async def test_it_is_heard_in_a_session_that_was_read_back(tmp_path: Path) -> None:
    notes = Notes()
    async with World(tmp_path, FakeModel([say("It is blue.")])) as it:
        await it.ended(await it.send("go"))
    async with World(tmp_path, FakeModel(), learnings=notes) as it:
        await it.ended(await it.send("That's wrong, it is green"))
    assert [heard.answer_to for heard in notes.heard] == ["It is blue."]


async def test_what_a_task_says_corrects_nobody(tmp_path: Path) -> None:
    notes = Notes()
    async with World(tmp_path, FakeModel([say("It is blue.")]), learnings=notes) as it:
        task = assignment(task_type="wrong", input_data={"text": "That's wrong"})
        assigned = await it.tasks.assign(task, "operator")
        assert assigned.turn is not None
        await it.ended(assigned.turn)
    assert not notes.heard


async def test_a_message_that_steers_is_heard_too(tmp_path: Path) -> None:
    notes, hands = Notes(), Hands(gates={"slow": asyncio.Event()})
    model = FakeModel([call(("c", "slow", "{}")), say("as you like")])
    async with World(tmp_path, model, catalog=hands.catalog("slow"), learnings=notes) as it:
        turn = await it.send("go")
        await asyncio.wait_for(hands.entered.wait(), PATIENCE)
        steering = await it.send("no, use pnpm", on_busy="steer")
        hands.gates["slow"].set()
        await it.ended(turn, steering)
        await until(lambda: bool(notes.heard))
    assert [(heard.text, heard.answer_to) for heard in notes.heard] == [("no, use pnpm", "")]


async def test_why_a_call_is_rejected_is_a_correction(tmp_path: Path) -> None:
    notes, hands = Notes(), Hands()
    deploys = [call((name, "deploy", '{"to": "prod"}')) for name in ("a", "b", "c")]
    catalog = hands.catalog("deploy", ask=["deploy"])
    async with World(tmp_path, FakeModel(deploys), catalog=catalog, learnings=notes) as it:
        turn = await waits(await it.send("go"))
        await decide(it, turn, "a", "reject", " \n")
        await waits(turn)
        await decide(it, turn, "b", "once", "go ahead")
        await waits(turn)
        await decide(it, turn, "c", "reject", "never on a Friday")
        await it.ended(turn)
    (heard,) = notes.heard
    assert (heard.text, heard.source) == ("never on a Friday", "person (rejected a call)")
    assert heard.answer_to == 'deploy {"to":"prod"}'
    assert all(error is None for _, error, _ in notes.seen), "a person's no is no failure"


def test_only_a_person_who_speaks_now_is_overheard() -> None:
    view = View("p")
    view.add_step(Step("It is blue."))
    parts = [{"type": "text", "text": "No, use pnpm"}]
    for interactive, begun, heard in ((True, False, 1), (False, False, 0), (True, True, 0)):
        notes = Notes()
        detect_correction(new_turn(parts=parts, interactive=interactive, has_run_before=begun), view, notes)
        assert len(notes.heard) == heard


def test_a_view_knows_what_the_model_said_last() -> None:
    view = View("p")
    assert view.last_answer is None
    view.add_user([{"type": "text", "text": "hi"}])
    assert view.last_answer is None
    view.add_step(Step('It is "blue".\n'))
    view.add_step(Step("", [ToolCallRecord("c", "read", {}, {"type": "output", "data": 1})]))
    assert view.last_answer == 'It is "blue".\n'
