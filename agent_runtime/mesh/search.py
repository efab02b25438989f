"""Web search through the host: the runtime has neither a search engine nor a key for one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from agent_common.completions import read_error_body
from agent_common.net import HttpPool, TransportFault
from agent_common.protocol import SearchHit, SearchRequest, SearchResults

from ..errors import MeshUnavailable, ToolFailure, ToolFailureKind

TIMEOUT_SECONDS = 15.0
_KINDS: Mapping[int, ToolFailureKind] = {400: "invalid", 422: "invalid", 429: "denied", 504: "timeout"}
_NOT_OFFERED = frozenset({401, 403, 404, 405, 501, 503})


class MeshSearch:
    """Implements ports.Search."""

    def __init__(self, url: str, headers: Mapping[str, str], seconds: float = TIMEOUT_SECONDS) -> None:
        self._http = HttpPool(
            url, {"content-type": "application/json", **headers}, read_timeout=seconds, connect_timeout=seconds
        )
        self._seconds = seconds

    async def search(self, query: str, limit: int, session_id: str) -> Sequence[SearchHit]:
        body = SearchRequest(query=query, max_results=limit, session=session_id).model_dump_json().encode()
        try:
            async with asyncio.timeout(self._seconds), self._http.request("POST", "/v1/search", body) as reply:
                status = reply.status
                answer = await reply.body()
        except TimeoutError as error:
            raise _late(self._seconds) from error
        except TransportFault as fault:
            if fault.timed_out:
                raise _late(self._seconds) from fault
            raise MeshUnavailable(f"the mesh cannot be reached to search: {fault.message}") from fault
        if status != 200:
            raise _refused(status, answer)
        try:
            return SearchResults.model_validate_json(answer).results[:limit]
        except ValidationError as error:
            raise ToolFailure("the mesh answered a search with something else") from error

    async def close(self) -> None:
        await self._http.close()


def _late(seconds: float) -> ToolFailure:
    return ToolFailure(
        f"the search took longer than {seconds:g} s; try again, or fetch a page you know", kind="timeout"
    )


def _refused(status: int, answer: bytes) -> ToolFailure | MeshUnavailable:
    message = read_error_body(answer).message
    if status in _NOT_OFFERED:
        return MeshUnavailable(f"the mesh does not offer search: {message}")
    return ToolFailure(f"the search failed: {message}", kind=_KINDS.get(status, "backend"))
