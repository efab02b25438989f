"""Give an agent's message to another agent as work. The work is in the ledger, so it outlives the host."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from dataclasses import replace
from typing import Any

from agent_common.clock import Clock
from agent_common.protocol import (
    AskPeer,
    AskReply,
    AskStatus,
    CancelledAsk,
    HandedOff,
    HandOff,
)
from agent_common.protocol.work import ASKED_BY, WorkRequest, WorkResult, to_rfc3339

from ..access import TeamMember, Teams
from ..database import BatchWriter, HostDatabase
from ..errors import Conflict, NotFound
from ..listener import LedgerRecord, Listener, OpenWork, read_task_result
from .callers import (
    CallChain,
    Lineage,
    WorkOnHand,
    check_chain,
    lineage_of,
    read_chain,
    read_seconds,
    read_user,
    record_request,
)
from .cards import AgentCards
from .errors import WorkEnded
from .withdrawn import WithdrawnMessages

CANCEL_SECONDS = 5.0
"""How long an ask waits for the end of work that its deadline has cancelled."""


class AgentRequests:
    """Asks agents in the name of others."""

    def __init__(
        self,
        database: HostDatabase,
        writer: BatchWriter,
        clock: Clock,
        listener: Listener,
        teams: Teams,
        cards: AgentCards,
    ) -> None:
        self._database = database
        self._writer = writer
        self._clock = clock
        self._listener = listener
        self._teams = teams
        self._cards = cards
        self._closing = asyncio.Event()
        self._withdrawn = WithdrawnMessages()

    def end_waits(self) -> None:
        """Answer all waiting requests now, because the host stops. The work itself goes on after the next start."""
        self._closing.set()

    async def ask(
        self, member: TeamMember, agent_id: str, asked: AskPeer, key: str | None, on_hand: WorkOnHand
    ) -> AskReply:
        """Hand the message over and wait for the end. `on_hand`: what the caller does meanwhile.

        Raises NotFound, and Conflict if it must not be asked, or has no channel."""
        lineage = await self._lineage(member, agent_id, on_hand, asked.deadline_s, waits=True)
        submitted, _ = await self._submit(member, agent_id, asked.message, key, lineage, expires_in=asked.deadline_s)
        record = await self._wait(submitted, asked.deadline_s)
        if record.is_finished:
            return _reply(record)
        if self._closing.is_set():
            text = "host_stopping: the host stops; the work goes on, and the same key asks for its end"
            return AskReply(status="unavailable", error=text, request_id=record.request_id)
        await self._listener.cancel(record.request_id, "deadline_exceeded")
        record = await self._listener.wait(record.request_id, CANCEL_SECONDS)
        late = _reply(record) if record.result is not None and record.result.status == "completed" else None
        text = f"deadline_exceeded: no answer within {asked.deadline_s:g} s; the work is cancelled"
        return late or AskReply(status="timeout", error=text, request_id=record.request_id)

    async def cancel(self, member: TeamMember, agent_id: str, key: str) -> CancelledAsk:
        """Cancel the work that the member has given the agent with this key. No effect if it has ended.

        Raises NotFound if there is none; then a message with the key that comes later is refused: the cancellation has
        overtaken it."""
        request_id = _request_id(member.name, key)
        if await self._reaches(member, agent_id):
            self._withdrawn.add(member.name, agent_id, request_id)  # from now on it does not begin
        open_work = self._listener.ledger.active.get(request_id)
        owner = open_work.workspace if open_work is not None else await self._listener.ledger.owner(request_id)
        if owner != agent_id:
            raise NotFound("there is no message of yours to this agent with this Idempotency-Key")
        record = await self._listener.cancel(request_id, f"{member.name} waits for it no more")
        self._withdrawn.remove(member.name, agent_id, request_id)  # its end is in the ledger
        return CancelledAsk(request_id=request_id, status=record.status)

    async def hand_off(
        self, member: TeamMember, agent_id: str, given: HandOff, key: str | None, on_hand: WorkOnHand
    ) -> tuple[HandedOff, bool]:
        """Hand the message over without waiting. Returns the work, and whether it is new. Raises as `ask`."""
        lineage = await self._lineage(member, agent_id, on_hand, given.deadline_s, waits=False)
        record, known = await self._submit(member, agent_id, given.message, key, lineage)
        return HandedOff(request_id=record.request_id, status=record.status), not known

    async def _lineage(
        self, member: TeamMember, agent_id: str, on_hand: WorkOnHand, seconds: float, *, waits: bool
    ) -> Lineage:
        await self._check_target(member, agent_id)
        parent = None if member.is_operator else await self._find_parent(member, on_hand)
        before = CallChain()
        elapsed = 0.0
        if parent is not None:
            before = await self._database.run(lambda connection: read_chain(connection, parent.id))
            elapsed = parent.seconds_at_work(self._clock.now_ms()) if waits else 0.0
        request = parent.request if parent is not None else None
        found = lineage_of(member, request, before, seconds, waits=waits, elapsed=elapsed)
        check_chain(found.chain, agent_id, waits=waits)
        return found

    async def _find_parent(self, member: TeamMember, on_hand: WorkOnHand) -> OpenWork | None:
        """Return the work in whose name the caller asks; None: it asks for itself. A task that a user has posted at the
        agent may have the id of another user's work, and must not borrow its authority. Raises WorkEnded."""
        ledger = self._listener.ledger
        task = on_hand.task
        if task is None:
            return None
        open_work = ledger.find_open(task)
        if open_work is not None and open_work.workspace == member.name:
            return open_work if on_hand.is_of(open_work.request.principal.name) else None
        if await ledger.owner(task) != member.name:
            return None
        if on_hand.is_of(await self._database.run(lambda connection: read_user(connection, task))):
            raise WorkEnded(f"the work {task!r} is over, so nothing more is asked in its name")
        return None

    async def _check_target(self, member: TeamMember, agent_id: str) -> None:
        """Raise NotFound for an agent that is unknown or of another team, and Conflict if it takes no work."""
        if not await self._reaches(member, agent_id):
            raise NotFound(f"there is no agent {agent_id!r}; GET /agents lists those that you may ask")
        channel = self._listener.channels.find(agent_id)
        if channel is None:
            raise Conflict(f"the agent {agent_id!r} has no channel to the host, so it takes no work", code="no_channel")
        if channel.fence is not None:
            raise Conflict(f"the agent {agent_id!r} is in quarantine", code="quarantined")

    async def _reaches(self, member: TeamMember, agent_id: str) -> bool:
        """Whether there is such an agent, and the member may ask it."""
        is_known = self._listener.channels.find(agent_id) is not None or await self._cards.has(agent_id)
        return is_known and (member.is_operator or await self._teams.team_of(agent_id) == member.team)

    async def _wait(self, record: LedgerRecord, seconds: float) -> LedgerRecord:
        """Return the record once the work is over, or the last one after the seconds, or when the host stops."""
        ended = asyncio.ensure_future(self._listener.wait(record.request_id, seconds))
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait({ended, closing}, return_when=asyncio.FIRST_COMPLETED)
            return ended.result() if ended.done() else record
        finally:
            ended.cancel()
            closing.cancel()

    async def _submit(
        self,
        member: TeamMember,
        agent_id: str,
        message: str,
        key: str | None,
        lineage: Lineage,
        *,
        expires_in: float | None = None,
    ) -> tuple[LedgerRecord, bool]:
        """Store who asks, then the work: a host that dies between the two has promised nothing."""
        request_id = _request_id(member.name, key)
        now = self._clock.now_ms()
        await asyncio.shield(
            self._writer.submit(
                lambda connection: record_request(connection, request_id, member.name, lineage.chain, now)
            )
        )
        request = _request(request_id, message, member, lineage, now)
        if self._withdrawn.has(member.name, agent_id, request_id):  # no await from here until the ledger has the work
            text = "Idempotency-Key: you have cancelled the message with this key; take another key"
            raise Conflict(text, code="ask_cancelled")
        try:
            return await self._listener.submit(agent_id, request, expires_in=expires_in)
        except Conflict as error:
            if error.code != "work_conflict":
                raise
        return await self._submit_again(agent_id, request_id, message, member, lineage, expires_in)

    async def _submit_again(
        self,
        agent_id: str,
        request_id: str,
        message: str,
        member: TeamMember,
        lineage: Lineage,
        expires_in: float | None,
    ) -> tuple[LedgerRecord, bool]:
        """Submit the request with the duration of the work that has its id: one who was cut off and has less time left
        asks for the same work. Raises Conflict if it is other work still."""
        seconds = await self._database.run(lambda connection: read_seconds(connection, request_id))
        bounds = lineage.bounds.model_copy(
            update={"max_duration_seconds": seconds or lineage.bounds.max_duration_seconds}
        )
        same = _request(request_id, message, member, replace(lineage, bounds=bounds), self._clock.now_ms())
        try:
            return await self._listener.submit(agent_id, same, expires_in=expires_in)
        except Conflict as error:
            if error.code != "work_conflict":
                raise
            text = "Idempotency-Key: names another message of yours already; take another key"
            raise Conflict(text, code="message_conflict") from error


def _request(request_id: str, message: str, member: TeamMember, lineage: Lineage, now: int) -> WorkRequest:
    return WorkRequest(
        request_id=request_id,
        principal=lineage.principal,
        content=_assignment(message, member, lineage),
        content_kind="json",
        constraints_version=0,
        submitted_at=to_rfc3339(now),
        audit_ref=f"{ASKED_BY}{member.name}",
        bounds=lineage.bounds,
    )


def _request_id(caller: str, key: str | None) -> str:
    """Return the id of the work: the same for the same key of a caller. Keys of two callers do not meet."""
    if key is None:
        return f"ask_{secrets.token_hex(16)}"
    return f"ask_{hashlib.sha256(f'{caller} {key}'.encode()).hexdigest()[:32]}"


def _assignment(message: str, member: TeamMember, lineage: Lineage) -> str:
    """Return the message as a task: it has a session of its own, and no person to ask."""
    task = {
        "task_type": "message",
        "objective": message,
        "input_data": {},
        "context": {"asked_by": member.name, "callers": lineage.chain.callers},
        "timeout": lineage.bounds.max_duration_seconds,
    }
    return json.dumps(task, ensure_ascii=False)


def _reply(record: LedgerRecord) -> AskReply:
    """Return the end of the work as its caller sees it."""
    result = record.result
    if result is None:
        status: AskStatus = "cancelled" if record.status == "cancelled" else "unavailable"
        return AskReply(status=status, error=record.error, request_id=record.request_id)
    status = "cancelled" if record.status == "cancelled" else result.status
    error = result.error or record.error
    return AskReply(status=status, response=_response(result), error=error, request_id=record.request_id)


def _response(result: WorkResult) -> dict[str, Any] | None:
    found = read_task_result(result.content)
    if found is not None:
        return found.result
    return {"text": result.content} if result.content else None
