"""Turns as tasks: others see them, and what ends the task ends the turn."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agent_client.hub import (
    EV_TASK_CANCELLED,
    AgentClient,
    Envelope,
    ProtocolError,
    Rule,
    TaskMetadata,
    TaskMirror,
    TaskSpec,
)
from agent_host.hub import Hub

from .agents import Scripted, echo, is_text
from .conftest import Join

PATIENCE = 60


class Thinker:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.was_stopped = False
        self.agent = Scripted(self._answer)

    async def _answer(self, _text: str, _dependencies: Mapping[str, Any]) -> str:
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.was_stopped = True
            raise
        return "thought"


async def live_task(client: AgentClient, session_id: str) -> TaskMetadata:
    """The task of the turn that runs in a session."""
    async with asyncio.timeout(PATIENCE):
        while not (found := (await client.tasks.list(session_id, state="running"))[0]):
            await asyncio.sleep(0.01)
    return found[0]


async def final(client: AgentClient, task_id: str) -> TaskMetadata:
    async with asyncio.timeout(PATIENCE):
        while not (task := await client.tasks.get(task_id)).is_over:
            await asyncio.sleep(0.01)
    return task


async def test_a_turn_is_a_task_that_completes_with_it(join: Join) -> None:
    thinker = Thinker()
    alice, bob = await join("alice"), await join("bob", thinker.agent)
    session = await alice.open(type="conversation", target="bob")
    await session.send("think")
    task = await live_task(alice, session.session_id)
    assert (task.owner_id, task.state) == (bob.agent_id, "running")
    thinker.go_on.set()
    await alice.wait_for_session_event(session.session_id, is_text, timeout=PATIENCE)
    assert (await final(alice, task.task_id)).state == "completed"


@pytest.mark.parametrize("who", ["peer", "owner", "operator"])
async def test_a_cancel_ends_the_turn_and_the_next_one_runs(hub: Hub, join: Join, who: str) -> None:
    thinker = Thinker()
    alice, bob = await join("alice"), await join("bob", thinker.agent)
    session = await alice.open(type="conversation", target="bob")
    await session.send("think")
    task = await live_task(alice, session.session_id)
    if who == "operator":
        await hub.tasks.cancel(None, task.task_id, "enough")
    else:
        await (alice if who == "peer" else bob).tasks.cancel(task.task_id, "enough")
    over = await final(alice, task.task_id)
    assert (over.state, over.error, thinker.was_stopped) == ("cancelled", "enough", True)
    said = await alice.wait_for_session_event(
        session.session_id, lambda event: event.event_type == EV_TASK_CANCELLED, timeout=PATIENCE
    )
    assert said.event_data["task_id"] == task.task_id
    thinker.go_on.set()
    await session.send("again")
    answer = await alice.wait_for_session_event(session.session_id, is_text, timeout=PATIENCE)
    assert (answer.text, thinker.agent.asked) == ("thought", ["think", "think\n\nagain"])


async def test_a_cancel_that_came_before_the_turn_was_begun_again_counts(hub: Hub, join: Join) -> None:
    alice, bob = await join("alice"), await join("bob", attach_plugin=False)
    heard: list[Envelope] = []
    bob.on_envelope(lambda envelope: _accept(bob, envelope, heard))
    session = await alice.open(type="conversation", target="bob")
    await session.send("think")
    async with asyncio.timeout(PATIENCE):
        while not heard:
            await asyncio.sleep(0.01)
    reasons: list[str] = []
    first = TaskMirror(bob, heard[0], reasons.append)
    await first.attach("think")
    await first.detach(None)
    await hub.tasks.cancel(None, first.task_id, "stop")
    second = TaskMirror(bob, heard[0], reasons.append)
    await second.attach("think")
    assert (reasons, second.cancelled) == (["stop"], "stop")
    await second.detach("failed")
    assert second.fault is None


async def _accept(client: AgentClient, envelope: Envelope, heard: list[Envelope]) -> None:
    from agent_client.hub import default_handler

    if is_text(envelope):
        heard.append(envelope)
    await default_handler(client, envelope)


async def test_what_goes_wrong_with_a_mirror_does_not_hurt_the_turn(join: Join) -> None:
    """The rule lets the agent have one task, and it has it."""
    alice, bob = await join("alice"), await join("bob", echo(), rule=Rule(max_concurrent_tasks=1))
    await bob.tasks.observe("only", TaskSpec(title="All it may have"))
    session = await alice.open(type="conversation", target="bob")
    await session.send("hello")
    answer = await alice.wait_for_session_event(session.session_id, is_text, timeout=PATIENCE)
    assert answer.text == "you said hello"
    assert (await alice.tasks.list(session.session_id))[0] == []


async def test_an_agent_keeps_a_checkpoint_and_says_how_far_it_is(join: Join) -> None:
    alice = await join("alice")
    await alice.tasks.checkpoint("job", {"page": 7})
    await alice.tasks.observe("job", TaskSpec(title="Read"), ttl=60)
    assert (await alice.tasks.update("job", progress=0.5)).progress == 0.5
    assert await alice.tasks.read_checkpoint("job") == {"page": 7}
    assert (await alice.tasks.cancel("job", "no more")).state == "cancelled"
    with pytest.raises(ProtocolError, match="cancelled, and stays so"):
        await alice.tasks.update("job", "running")
