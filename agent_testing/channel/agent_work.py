"""What the stub agent does with requests: its ledger, its bounds, its answers."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent_common.protocol.work import (
    FrameFault,
    FrameTooLarge,
    Lines,
    Progress,
    ResultStatus,
    WorkRequest,
    WorkResult,
    WorkUsage,
    payload_hash,
    to_rfc3339,
)

if TYPE_CHECKING:
    from .agent import StubAgent, StubEntry
    from .agent_connection import AgentConversation

_SLEEP = re.compile(r"sleep:([0-9.]{1,6})")
_TICK = 0.1


def now() -> str:
    return to_rfc3339(time.time_ns() // 1_000_000)


def start_request(connection: AgentConversation, request: WorkRequest) -> None:
    """Begins the work, or says why not."""
    from .agent import StubEntry

    agent = connection.agent
    known = agent.ledger.get(request.request_id)
    if known is not None:
        _handle_repeated(connection, known, request)
        return
    if refusal := _refusal(connection, request):
        _refuse(connection, request, *refusal)
        return
    entry = agent.ledger[request.request_id] = StubEntry(request)
    _start_work(connection, entry)


def _start_work(connection: AgentConversation, entry: StubEntry) -> None:
    if not connection.has_fault("no_accepting"):
        connection.signal("accepting", entry.request.request_id)
    entry.task = asyncio.create_task(_run_work(connection.agent, entry))


def _handle_repeated(connection: AgentConversation, known: StubEntry, request: WorkRequest) -> None:
    """The id has been used."""
    same = known.request.fingerprint() == request.fingerprint()
    if not same and not connection.has_fault("no_conflict"):
        _refuse(connection, request, "failed", "request_id_conflict: the id was used for other work")
    elif known.result is None:
        connection.signal("accepting", request.request_id)
        if connection.has_fault("starts_again"):
            _start_work(connection, _copy_entry(known))
    elif connection.has_fault("runs_again"):
        _start_work(
            connection, _copy_entry(known, answer="pong once more")
        )  # the same words in the same millisecond would not show
    else:
        connection.deliver(known)


def _copy_entry(entry: StubEntry, answer: str = "pong") -> StubEntry:
    from .agent import StubEntry

    return StubEntry(entry.request, answer=answer)


def _refusal(connection: AgentConversation, request: WorkRequest) -> tuple[ResultStatus, str] | None:
    if connection.agent.dialect == "loose":
        return None
    if not request.principal.verified and not connection.has_fault("trusts_anyone"):
        return "denied", "unverified_principal: nobody has checked who asks"
    if request.constraints_version != connection.agent.version and not connection.has_fault("ignores_version"):
        connection.signal("constraints_outdated", request.request_id)
        return "denied", "constraints_outdated: other constraints hold here"
    if request.bounds and request.bounds.max_egress_bytes is not None and not connection.has_fault("takes_any_bound"):
        return "denied", "unsupported_bound:max_egress_bytes"
    if connection.draining and not connection.has_fault("works_while_draining"):
        return "denied", "draining: no new work"
    return None


def _refuse(connection: AgentConversation, request: WorkRequest, status: ResultStatus, error: str) -> None:
    from .agent import StubEntry

    entry = StubEntry(request, result=_result(request, status, error=error), acked=True)
    if connection.has_fault("keeps_outdated") and error.startswith("constraints_outdated"):
        connection.agent.ledger[request.request_id] = entry
    if connection.has_fault("accepts_then_denies"):
        connection.signal("accepting", request.request_id)
        connection.deliver(entry)
    elif entry.result is not None:
        connection.send(entry.result)


def cancel(connection: AgentConversation, request_id: str) -> None:
    entry = connection.agent.ledger.get(request_id)
    if entry is not None and entry.task is not None and entry.result is None:
        entry.task.cancel()


def _result(request: WorkRequest, status: ResultStatus, **more: str | None) -> WorkResult:
    return WorkResult(
        request_id=request.request_id, status=status, completed_at=now(), audit_ref=request.audit_ref, **more
    )


# -------------------------------------------------------------------- the work itself


async def _run_work(agent: StubAgent, entry: StubEntry) -> None:
    request = entry.request
    try:
        entry.result = await _within_bounds(agent, entry)
    except asyncio.CancelledError:
        entry.result = _result(request, "failed", error="cancelled: the host has cancelled it")
    agent.deliver(entry)


async def _within_bounds(agent: StubAgent, entry: StubEntry) -> WorkResult:
    request, bounds = entry.request, entry.request.bounds
    seconds = bounds.max_duration_seconds if bounds else None
    if "no_deadline" in agent.faults:
        seconds = None
    try:
        async with asyncio.timeout(seconds):
            answer = await _answer(agent, entry)
    except TimeoutError:
        return _result(request, "yielded", error="deadline_exceeded: max_duration_seconds")
    except _Bound as bound:
        return _result(request, "yielded", error=str(bound))
    return _result(request, "completed", content=answer)


class _Bound(Exception):
    """A bound was reached."""


async def _answer(agent: StubAgent, entry: StubEntry) -> str:
    request, bounds = entry.request, entry.request.bounds
    tokens = len(request.content.split()) + 1
    if bounds and bounds.max_tokens is not None and tokens > bounds.max_tokens and "no_budget" not in agent.faults:
        raise _Bound("budget_exhausted: max_tokens")
    calls = 0
    if request.content == "tool":
        most = bounds.max_tool_calls if bounds else None
        if most is not None and calls >= most and "no_tool_bound" not in agent.faults:
            raise _Bound("budget_exhausted: max_tool_calls")
        calls = 1
    entry.usage = WorkUsage(tokens=tokens, tool_calls=calls)
    _progress(agent, entry, 1)
    if found := _SLEEP.fullmatch(request.content):
        await _sleep(agent, entry, float(found[1]))
    return entry.answer


async def _sleep(agent: StubAgent, entry: StubEntry, seconds: float) -> None:
    number = 1
    until = asyncio.get_running_loop().time() + seconds
    while (left := until - asyncio.get_running_loop().time()) > 0:
        await asyncio.sleep(min(left, _TICK))
        number += 1
        _progress(agent, entry, 1 if "progress_stands" in agent.faults else number)


def _progress(agent: StubAgent, entry: StubEntry, number: int) -> None:
    talk = agent.connection()
    if talk is not None and talk.welcome is not None and talk.open_for_results and not entry.result_unwanted:
        talk.send(Progress(request_id=entry.request.request_id, seq=number, kind="usage", usage=entry.usage))


# -------------------------------------------------------------------- readers, sound and not


class _Patient(Lines):
    """Never gives up."""

    def feed(self, data: bytes) -> Iterator[bytes | FrameFault]:
        try:
            yield from super().feed(data)
        except FrameTooLarge:
            self._length = self.soft + 1


def line_reader(connection: AgentConversation) -> Lines:
    return (_Patient if connection.has_fault("endures_endless_lines") else Lines)(connection.agent.max_line)


def has_blank(data: bytes) -> bool:
    return data.startswith((b"\n", b"\r\n")) or b"\n\n" in data or b"\n\r\n" in data


def parse_leniently(connection: AgentConversation, line: bytes) -> dict[str, Any] | None:
    """How a reader takes a line that does not look twice; none for one that does."""
    if connection.has_fault("takes_double_keys"):
        try:
            value: dict[str, Any] = json.loads(line)
        except ValueError:
            return None
        return value if type(value) is dict else None
    return None


def drop_tolerated(connection: AgentConversation, value: dict[str, Any]) -> dict[str, Any]:
    """The frame without what a careless reader does not see."""
    if "principal" not in value:
        return value
    if connection.has_fault("takes_extra_fields"):
        value = {name: one for name, one in value.items() if name in WorkRequest.model_fields or name == "status"}
    if connection.has_fault("takes_two_shapes"):
        value = {name: one for name, one in value.items() if name != "status"}
    return value


def checked_hash(connection: AgentConversation, b64: str, claimed: str) -> str | None:
    """The payload's hash, if it is the one that was told."""
    try:
        payload = base64.b64decode(b64, validate=True)
    except (ValueError, binascii.Error):
        return None
    found = payload_hash(payload)
    if connection.has_fault("believes_hashes"):
        return claimed
    if found != claimed:
        return None
    if connection.has_fault("rewrites_payload"):
        return payload_hash(json.dumps(payload.decode("utf-8", "replace")).encode())
    return found
