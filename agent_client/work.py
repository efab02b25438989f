"""Work for agents, handed in at the host, whose ledger keeps it until its end (docs/reference/mediation-host.md)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from secrets import token_hex
from time import monotonic
from typing import Any, Literal

import httpx2
from pydantic import ValidationError
from pydantic_core import to_json

from agent_common.json_reader import read_json

from .errors import ConnectionFailed, UnexpectedReply
from .events import EVENT_LIMITS
from .host_messages import WorkPage, WorkRecord, WorkStatus
from .http import Call, Connection, pages, path, resumed

WAIT_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class WorkEvent:
    """A change of work: `status`, `progress` of its agent, or `result`, the last."""

    type: Literal["status", "progress", "result"]
    data: dict[str, Any]


class Work:
    """All work of the host, for the operator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def submit(
        self,
        workspace: str,
        content: str | Mapping[str, Any],
        *,
        id: str | None = None,
        bounds: Mapping[str, Any] | None = None,
        expires_in: float | None = None,
    ) -> str:
        """Hand work in, and return its id; it is on the host's disk then. A text becomes a chat turn, an object (a
        TaskAssignment) a task. The same `id` with the same content is the same work, other content raises Conflict."""
        name = id or f"work_{token_hex(12)}"
        text = isinstance(content, str)
        request: dict[str, Any] = {
            "request_id": name,
            "content": content if text else to_json(content).decode(),
            "content_kind": "text" if text else "structured",
        }
        if bounds is not None:
            request["bounds"] = dict(bounds)
        body: dict[str, Any] = {"workspace": workspace, "request": request}
        if expires_in is not None:
            body["expires_in"] = expires_in
        await self._connection.send(Call("POST", "/work", json=body, repeatable=True))
        return name

    async def get(self, id: str) -> WorkRecord:
        """Read the record. Raises NotFound."""
        return await self._connection.fetch(WorkRecord, Call("GET", path("work", id)))

    async def list(self, *status: WorkStatus, workspace: str | None = None) -> AsyncGenerator[WorkRecord]:
        """Yield the records, newest first; only of these states and this workspace if they are named."""
        params: dict[str, Any] = {"status": status} | ({} if workspace is None else {"workspace": workspace})
        async for page in pages(self._connection, WorkPage, Call("GET", "/work", params=params)):
            for record in page.work:
                yield record

    async def cancel(self, id: str, reason: str = "cancelled") -> WorkRecord:
        """Cancel it. No effect if it has ended."""
        call = Call("POST", path("work", id, "cancel"), json={"reason": reason}, repeatable=True)
        return await self._connection.fetch(WorkRecord, call)

    async def wait(self, id: str, wait: float = WAIT_SECONDS) -> WorkRecord:
        """Wait until the work has ended; `status` says how. Raises NotFound, DeadlineExceeded."""
        async with aclosing(self.follow(id, wait)) as events:
            async for event in events:
                if event.type == "result":
                    return WorkRecord.model_validate(event.data)
        raise UnexpectedReply(f"work {id} has no end")

    async def follow(self, id: str, wait: float = WAIT_SECONDS) -> AsyncGenerator[WorkEvent]:
        """Yield its changes up to its end, also over broken connections. What its agent reports while none is open is
        left out."""
        last: WorkEvent | None = None

        async def read() -> AsyncGenerator[WorkEvent | None]:
            nonlocal last
            async with self._connection.stream(Call("GET", path("work", id, "stream"))) as response:
                yield None
                async for sent in httpx2.EventSource(response, max_event_size=self._connection.max_answer):
                    event = _event(sent)
                    if event != last:  # a new connection begins with the present state
                        last = event if event.type == "status" else last
                        yield event
                    if event.type == "result":
                        return
            raise ConnectionFailed(f"/work/{id}: the stream was cut off")

        async with aclosing(resumed(read, deadline=monotonic() + wait)) as events:
            async for event in events:
                yield event


def _event(sent: httpx2.ServerSentEvent) -> WorkEvent:
    try:
        if sent.event == "status":
            return WorkEvent("status", read_json(sent.data.encode(), EVENT_LIMITS))
        if sent.event == "progress":
            return WorkEvent("progress", read_json(sent.data.encode(), EVENT_LIMITS))
        return WorkEvent("result", WorkRecord.model_validate_json(sent.data).model_dump())
    except (ValidationError, ValueError) as error:
        raise UnexpectedReply(f"not an event of work: {sent.data[:200]}") from error
