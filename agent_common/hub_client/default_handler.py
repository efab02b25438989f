"""The handler of agents that answer: it accepts invitations, and asks the agent when it is its turn.

Its parts are public, so that a handler of your own can use some of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from pydantic_core import to_json

from ..backoff import Backoff
from ..protocol.hub import (
    EV_EXPECTATION_VIOLATED,
    EV_HANDOFF,
    EV_SESSION_INVITE,
    EV_SESSION_INVITE_ACK,
    EV_TEXT,
    AccessDeniedError,
    Envelope,
    NotFoundError,
    ProtocolError,
    RateLimited,
    SessionInfo,
    TurnOutcome,
    ViewPolicy,
    render,
    text_data,
)
from .agent_client import AgentClient
from .interfaces import MemoryStream
from .mailboxes import handled
from .session import Session
from .task_mirror import TaskMirror

SESSION_DEP = "ag2.network.session"
AGENT_CLIENT_DEP = "ag2.network.agent_client"
HUB_DEP = "ag2.network.hub"
_PAGE = 32
MOST_ENVELOPES = 5000
MOST_BYTES = 4 << 20
"""What is read of a log at most, from its end: others decide how long it is, and no model reads more."""
_MOST_LATER = 100
_PASSES_THE_TURN = ("hide", "remove")
"""Actions of the hub on an agent that is late: the turn passes to another agent."""
_FINAL = (AccessDeniedError, NotFoundError, ProtocolError)
"""Refusals after which another attempt would not help."""
_REPLY_SECONDS = 300.0
_PAUSES = Backoff(0.1, 30.0, jitter=0.2)


async def default_handler(client: AgentClient, envelope: Envelope) -> TurnOutcome | None:
    """Handle an envelope as the table of docs/reference/hub.md says. What the agent raises brings it again."""
    if envelope.event_type == EV_SESSION_INVITE:
        await accept_invitation(client, envelope)
        return None
    if client.agent is None or not may_ask(envelope):
        return None
    outcome = await earlier_outcome(client, envelope)
    if outcome is not None or not await _has_turn(client, envelope):
        return outcome
    return await answer(client, envelope)


def may_ask(envelope: Envelope) -> bool:
    """Whether an envelope can ask for an answer: a turn of another one, or the news that a turn has passed."""
    if envelope.event_type == EV_EXPECTATION_VIOLATED:
        return envelope.event_data.get("action") in _PASSES_THE_TURN
    return envelope.event_type in (EV_TEXT, EV_HANDOFF)


async def _has_turn(client: AgentClient, envelope: Envelope) -> bool:
    """Whether the agent is to answer this envelope. Where participants take turns, only the last one that asks is
    answered: those before it are shown with it."""
    if not await client.can_send(envelope.session_id):
        return False
    later, _ = await client.read_log(envelope.session_id, envelope.sequence, _MOST_LATER)
    is_last = not any(may_ask(one) for one in later)
    is_turn = envelope.event_type != EV_EXPECTATION_VIOLATED
    if is_last and is_turn:
        return True
    info = await client.session_info(envelope.session_id)
    return is_turn if info.type == "conversation" else is_last


async def accept_invitation(client: AgentClient, envelope: Envelope) -> None:
    """Take part in the session that an invitation is for."""
    acknowledgement = Envelope(
        session_id=envelope.session_id,
        event_type=EV_SESSION_INVITE_ACK,
        causation_id=envelope.envelope_id,
        idempotency_key=f"ack:{envelope.envelope_id}",
    )
    try:
        await client.send_envelope(acknowledgement)
    except _FINAL:
        return  # it was answered before, or the session is over


async def answer(client: AgentClient, envelope: Envelope) -> TurnOutcome:
    """Ask the agent, and send its reply. A reply is sent once, however often this is called for an envelope."""
    if client.agent is None:
        return "silent"
    session = client.session(envelope.session_id)
    info = await session.info()
    policy = resolve_view_policy(client, info)
    log = [*await read_wal_until(client, envelope, policy), envelope]
    view = policy.project(log, client.agent_id, info.names())
    asked = view.pop().text if view and view[-1].role == "user" else render(envelope)
    if not asked:
        return "silent"
    stream = MemoryStream(tuple(view))
    asking = client.agent.ask(asked, stream=stream, dependencies=stamp_dependencies(client, session))
    try:
        text = reply_text(await _mirrored(client, envelope, asking))
    except TurnCancelled:
        return "failed"
    if not text:
        return "silent"
    return "replied" if await send_reply(session, envelope, text_data(text)) else "failed"


async def send_reply(session: Session, envelope: Envelope, data: dict[str, Any], event_type: str = EV_TEXT) -> bool:
    """Send the reply to an envelope, and return whether it is in the log. While a rate or an inbox does not let it
    through it is sent again later, so that the agent is not asked for another one."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _REPLY_SECONDS
    failures = 0
    while True:
        try:
            await session.send(
                event_type=event_type,
                event_data=data,
                causation_id=envelope.envelope_id,
                idempotency_key=f"reply:{envelope.envelope_id}",
            )
        except _FINAL:
            return False  # the turn has passed, the session is over, or a rule forbids it
        except RateLimited as error:
            failures += 1
            pause = max(_PAUSES.pause(failures), error.retry_after or 0.0)
            if not pause < deadline - loop.time():
                return False
            await asyncio.sleep(pause)
        else:
            return True


class TurnCancelled(Exception):
    """The task of the turn is over, or a participant has asked for its end."""


async def _mirrored(client: AgentClient, envelope: Envelope, asking: Coroutine[Any, Any, object]) -> object:
    """The agent's reply, while others see its turn as a task. Raises TurnCancelled when that has ended it."""
    turn = asyncio.get_running_loop().create_task(asking)

    def cancel(_reason: str) -> None:
        turn.cancel()

    mirror = TaskMirror(client, envelope, cancel)
    try:
        await mirror.attach(f"Answers {envelope.envelope_id}")
        await asyncio.wait([turn])
    finally:
        if not turn.done():  # this process ends: a later one begins the turn again
            turn.cancel()
            await asyncio.wait([turn])
            await mirror.detach(None)
    if mirror.cancelled is not None and turn.cancelled():
        await mirror.detach("failed")
        raise TurnCancelled
    has_reply = not turn.cancelled() and turn.exception() is None
    await mirror.detach("completed" if has_reply else None)  # else the envelope comes again
    return turn.result()


async def read_wal_until(
    client: AgentClient, envelope: Envelope, policy: ViewPolicy | None = None
) -> Sequence[Envelope]:
    """The log up to an envelope, without it, and never more than the limits allow. With a policy what says nothing to a
    model comes without its content, and if the policy shows the end only, no more than that is read."""
    wanted = None if policy is None else policy.recent
    found: list[Envelope] = []
    end = envelope.sequence - 1
    size = 0
    while end > 0 and len(found) < MOST_ENVELOPES and size < MOST_BYTES:
        start = max(0, end - _PAGE)
        page = await _read(client, envelope.session_id, start, end, is_whole=policy is None)
        found[:0] = page
        size += sum(len(to_json(one.event_data)) for one in page)
        if wanted is not None and sum(bool(render(one)) for one in found) >= wanted:
            break
        end = start
    return found


async def _read(client: AgentClient, session_id: str, after: int, end: int, *, is_whole: bool) -> list[Envelope]:
    """What may be read of a log after a sequence, up to another; unless it is to be whole, what says nothing to a model
    is without its content."""
    found: list[Envelope] = []
    position: int | None = after
    while position is not None and position < end:
        page, position = await client.read_log(session_id, position, end - position)
        found += [one if is_whole else _without_unread(one) for one in page if one.sequence <= end]
    return found


def _without_unread(envelope: Envelope) -> Envelope:
    return envelope if render(envelope) else envelope.model_copy(update={"event_data": {}})


def resolve_view_policy(client: AgentClient, info: SessionInfo) -> ViewPolicy:
    """How this participant sees what was said: as the type of the session has it."""
    return client.types[info.type].default_view_policy(len(info.participants))


def stamp_dependencies(client: AgentClient, session: Session) -> dict[str, Any]:
    """What a turn can reach: the session, the client, and the hub if it is in this process."""
    return {SESSION_DEP: session, AGENT_CLIENT_DEP: client, HUB_DEP: client.hub}


def reply_text(reply: object) -> str:
    """What an agent has replied."""
    content = getattr(reply, "content", reply)
    return "" if content is None else str(content).strip()


async def earlier_outcome(client: AgentClient, envelope: Envelope) -> TurnOutcome | None:
    """How a turn over this envelope ended before, if it may have been delivered before."""
    frame = handled.get()
    if frame is None or frame.attempt == 1 or frame.envelope.envelope_id != envelope.envelope_id:
        return None
    reply, outcome = await client.turn_before(envelope)
    return "replied" if reply is not None else outcome
