"""Requests to what the host keeps for a team: blackboard, topics, artifacts and web services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from urllib.parse import quote

from agent_common.completions import read_error_body
from agent_common.net import HttpPool, HttpResponse, TransportFault
from agent_common.protocol import SESSION_HEADER, TASK_HEADER, USER_HEADER

from ..errors import MeshUnavailable, ToolFailure, ToolFailureKind
from ..ports import MESH_SECONDS, MeshReply, MeshRequest, MeshStream

_KINDS: Mapping[int, ToolFailureKind] = {
    **dict.fromkeys((400, 404, 405, 409, 412, 413, 422), "invalid"),
    **dict.fromkeys((402, 403), "denied"),
    **dict.fromkeys((429, 507), "unavailable"),
    504: "timeout",
}
_NOT_OURS = frozenset({404, 405, 501})
"""Statuses by which a mesh that is no host of this product answers."""
PROBLEM = "application/problem+json"


class MeshTeamRequests:
    """Implements ports.TeamRequests."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._http = HttpPool(
            url, {"accept-encoding": "identity", **headers}, read_timeout=MESH_SECONDS, connect_timeout=MESH_SECONDS
        )

    async def request(self, request: MeshRequest) -> MeshReply:
        async with self._answer(request) as reply:
            return await _whole(reply, request)

    @asynccontextmanager
    async def open(self, request: MeshRequest) -> AsyncGenerator[MeshStream]:
        async with self._answer(request) as reply:
            yield MeshStream(reply.status, reply.headers, reply.pieces)

    @asynccontextmanager
    async def _answer(self, request: MeshRequest) -> AsyncGenerator[HttpResponse]:
        """Open an answer that the request accepts. Raises MeshUnavailable and ToolFailure, also within the block."""
        headers = {**request.headers, **dict(_cause(request))}
        try:
            async with (
                asyncio.timeout(request.seconds),
                self._http.request(
                    request.method, request.path, request.body, headers=headers, read_timeout=request.silent_seconds
                ) as reply,
            ):
                marker = request.accepted_header
                if marker not in reply.headers if marker else reply.status not in request.accepted:
                    raise _refused(await _whole(reply, request))
                yield reply
        except TimeoutError as error:
            raise _unanswered(request, f"no answer within {request.seconds:g} s") from error
        except TransportFault as fault:
            if isinstance(fault.__cause__, ConnectionRefusedError):
                raise MeshUnavailable(f"the host gave no answer: {fault.message}") from fault
            raise _unanswered(request, fault.message) from fault

    async def close(self) -> None:
        await self._http.close()


async def _whole(reply: HttpResponse, request: MeshRequest) -> MeshReply:
    return MeshReply(reply.status, reply.headers, await reply.body(request.max_bytes + 1))


def _cause(request: MeshRequest) -> Iterator[tuple[str, str]]:
    """Yield the headers that name the cause. An id that no header can carry is left out."""
    for name, value in ((SESSION_HEADER, request.session_id), (TASK_HEADER, request.task_id)):
        if value and value.isascii() and value.isprintable():
            yield name, value
    if request.user:
        yield USER_HEADER, quote(request.user, safe="")


def _unanswered(request: MeshRequest, why: str) -> MeshUnavailable:
    doubt = (
        "" if request.method in ("GET", "HEAD") else "; it was not queued, but may have been carried out: look first"
    )
    return MeshUnavailable(f"the host gave no answer: {why}{doubt}")


def _refused(answer: MeshReply) -> ToolFailure | MeshUnavailable:
    message = read_error_body(answer.body).message
    is_host = answer.headers.get("content-type", "").startswith(PROBLEM)
    if answer.status in (401, 503) or (answer.status in _NOT_OURS and not is_host):
        return MeshUnavailable(f"the mesh does not offer this: {message}")
    return ToolFailure(f"the host refused: {message}", kind=_KINDS.get(answer.status, "backend"))
