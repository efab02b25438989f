"""`web_search`: pages about something, found by the host."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from agent_common.protocol import Net, RequirementSet

from ...errors import ToolFailure
from ...ports import Search, ToolContext, ToolSpec
from ..core.contract import AccessRequest, Tool

SECONDS = 15.0
CALLS = 25
"""Searches of one session."""
MOST = 20
DEFAULT = 8
LONGEST = 500
REMEMBERED = 10_000
"""Sessions whose searches are counted."""

DESCRIPTION = (
    f"Search the web for pages about something: at most {MOST} results with title, url and snippet, best first. A "
    f"session may search {CALLS} times, so ask precisely. Not for what a page says in full (web_fetch with its url), "
    "and not for files here (grep, glob)."
)
REQUIRES = RequirementSet(net=Net(hosts=["*"]))
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": LONGEST, "description": "A few words"},
        "max_results": {
            "type": "integer",
            "minimum": 1,
            "maximum": MOST,
            "description": f"Most results; default: {DEFAULT}",
        },
    },
    "required": ["query"],
    "additionalProperties": False,
}


def web_search_tool(search: Search) -> Tool:
    counts = _Counts()

    async def run(arguments: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
        query = " ".join(arguments["query"].encode(errors="replace").decode().split())
        if not query:
            raise ToolFailure("query: holds no words", kind="invalid")
        counts.take(context.session_id)
        if context.egress is not None:
            context.egress.let_out(len(query.encode()))
        hits = await search.search(query, arguments.get("max_results", DEFAULT), context.session_id)
        found: dict[str, Any] = {"results": [hit.model_dump() for hit in hits]}
        if not hits:
            found["note"] = "nothing was found; other or fewer words may find more"
        return found

    spec = ToolSpec("web_search", DESCRIPTION, PARAMETERS, read_only=True)
    return Tool(
        spec,
        run,
        REQUIRES,
        timeout=SECONDS + 2,
        reach=_reach,
        answers="`results` of `title`, `url`, `snippet`; `note?`",
        bounds=f"{MOST} results, {CALLS} searches a session",
    )


async def _reach(arguments: Mapping[str, Any], _: ToolContext) -> AccessRequest:
    return AccessRequest((arguments["query"],), habits=("*",))


class _Counts:
    """How often each session has searched in this life of the server; those that searched last are remembered."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def take(self, session_id: str) -> None:
        count = self._counts.get(session_id, 0)
        if count >= CALLS:
            advice = "go on with what was found, or fetch a page you know"
            raise ToolFailure(f"this session has used its {CALLS} searches; {advice}", kind="denied")
        self._counts[session_id] = count + 1
        self._counts.move_to_end(session_id)
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)
