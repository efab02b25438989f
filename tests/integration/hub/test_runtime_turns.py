"""What a runtime sends for a turn: its reply, or where somebody waits for it that there is none."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent_client.hub import EV_FINISH, EV_TEXT, AgentClient, Envelope, Inbox, Rule
from agent_common.protocol.hub import TurnOutcome
from agent_host.hub import Hub
from agent_runtime.errors import TooLarge
from agent_runtime.hub import HubTurns, Origins
from agent_runtime.loop import CompletedTurn
from agent_runtime.sessions.store.history import Message

from .conftest import Join


class Chats:
    """A loop that ends each turn at once."""

    def __init__(self, text: str | None) -> None:
        """`text`: the reply; None: it admits no message."""
        self.asked, self._text = 0, text

    async def send(self, _incoming: object) -> CompletedTurn:
        self.asked += 1
        if self._text is None:
            raise TooLarge
        reply = Message("m", "assistant", {}, [{"type": "text", "text": self._text}], 1)
        return CompletedTurn({}, reply, {"status": "complete"})


class NoSessions:
    """The sessions of a runtime that has none."""

    async def get(self, *_names: object) -> None:
        return None


def answers(client: AgentClient, chats: Chats) -> None:
    """Have a runtime's handler answer what is delivered to an agent."""
    services: Any = SimpleNamespace(live_sessions=NoSessions(), database=None, admission=None)
    client.on_envelope(partial(HubTurns(services, cast("Any", chats), Origins()).handle, client))


async def outcome_of(hub: Hub, client: AgentClient, session_id: str) -> tuple[Envelope | None, TurnOutcome]:
    """The answer to the first text of a session, and how the turn over it ended."""
    log = (await hub.queries.log(None, session_id, 0, 9)).envelopes
    asked = next(one for one in log if one.event_type == EV_TEXT)
    async with asyncio.timeout(60):
        while (found := (await client.turn_before(asked))[1]) is None:
            await asyncio.sleep(0.01)
    log = (await hub.queries.log(None, session_id, 0, 20)).envelopes
    return next((one for one in log if one.causation_id == asked.envelope_id), None), found


@pytest.mark.parametrize(
    ("question", "text", "outcome", "reason"),
    [
        ("a text beyond the window", None, "failed", "its turn failed"),
        ("", "never asked", "silent", "it says nothing"),
        ("well?", "SILENT", "silent", "it says nothing"),
    ],
)
async def test_who_consults_hears_that_there_is_no_answer(
    hub: Hub, join: Join, question: str, text: str | None, outcome: TurnOutcome, reason: str
) -> None:
    alice, bob = await join("alice", attach_plugin=False), await join("bob", attach_plugin=False)
    answers(bob, Chats(text))
    session = await alice.open(type="consulting", target="bob")
    await session.send(question)
    answer, found = await outcome_of(hub, bob, session.session_id)
    assert (answer and (answer.event_type, answer.event_data), found) == ((EV_FINISH, {"reason": reason}), outcome)


async def test_a_reply_waits_for_a_full_inbox(hub: Hub, join: Join) -> None:
    alice = await join("alice", attach_plugin=False, rule=Rule(inbox=Inbox(max_pending=1)))
    bob = await join("bob", attach_plugin=False)
    chats = Chats("done")
    answers(bob, chats)
    may_read = asyncio.Event()

    async def read_later(envelope: Envelope) -> None:
        if envelope.event_type == EV_TEXT:
            await may_read.wait()

    alice.on_envelope(read_later)
    session = await alice.open(type="conversation", target="bob")
    await bob.session(session.session_id).send("one moment")
    await session.send("well?")
    async with asyncio.timeout(60):
        while not chats.asked:
            await asyncio.sleep(0.01)
    log: list[Any] = []
    asyncio.get_running_loop().call_later(1.0, may_read.set)  # the hub would have given up by then
    async with asyncio.timeout(60):
        while not any(one.causation_id for one in log if one.event_type == EV_TEXT):
            log = list((await hub.queries.log(None, session.session_id, 0, 20)).envelopes)
            await asyncio.sleep(0.01)
    assert (log[-1].text, chats.asked) == ("done", 1)
    assert not await hub.store.dead_letters(0, 9)
