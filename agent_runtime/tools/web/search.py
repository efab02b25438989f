"""`web_search`: finds pages through the host."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from agent_common.protocol import Net, RequirementSet

from ...errors import ToolFailure
from ...ports import Search, ToolContext, ToolSpec
from ..core.contract import AccessRequest, Tool

SEARCH_SECONDS = 15.0
MAX_SEARCHES = 25
"""Maximum searches of one session."""
MAX_RESULTS = 20
DEFAULT_RESULTS = 8
MAX_QUERY_LENGTH = 500
MAX_SESSIONS = 10_000
"""Maximum sessions whose searches are counted."""

DESCRIPTION = (
    f"Search the web for pages about something: at most {MAX_RESULTS} results with title, url and snippet, best first. "
    f"A session may search {MAX_SEARCHES} times, so ask precisely. Not for what a page says in full (web_fetch with "
    "its url), and not for files here (grep, glob)."
)
REQUIREMENTS = RequirementSet(net=Net(hosts=["*"]))
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "minLength": 1, "maxLength": MAX_QUERY_LENGTH, "description": "A few words"},
        "max_results": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_RESULTS,
            "description": f"Most results; default: {DEFAULT_RESULTS}",
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
            raise ToolFailure("query: has no words", kind="invalid")
        counts.count_search(context.session_id)
        if context.egress is not None:
            context.egress.count_sent(len(query.encode()))
        hits = await search.search(query, arguments.get("max_results", DEFAULT_RESULTS), context.session_id)
        found: dict[str, Any] = {"results": [hit.model_dump() for hit in hits]}
        if not hits:
            found["note"] = "nothing was found; other or fewer words may find more"
        return found

    spec = ToolSpec("web_search", DESCRIPTION, PARAMETERS, read_only=True)
    return Tool(
        spec,
        run,
        REQUIREMENTS,
        timeout=SEARCH_SECONDS + 2,
        describe_access=_describe_access,
        result_doc="`results` of `title`, `url`, `snippet`; `note?`",
        limits_doc=f"{MAX_RESULTS} results, {MAX_SEARCHES} searches a session",
    )


async def _describe_access(arguments: Mapping[str, Any], _: ToolContext) -> AccessRequest:
    return AccessRequest((arguments["query"],), suggested_patterns=("*",))


class _Counts:
    """Counts the searches of each session in this process; only recent sessions are remembered."""

    def __init__(self) -> None:
        self._counts: OrderedDict[str, int] = OrderedDict()

    def count_search(self, session_id: str) -> None:
        count = self._counts.get(session_id, 0)
        if count >= MAX_SEARCHES:
            advice = "go on with what was found, or fetch a page you know"
            raise ToolFailure(f"this session has used its {MAX_SEARCHES} searches; {advice}", kind="denied")
        self._counts[session_id] = count + 1
        self._counts.move_to_end(session_id)
        if len(self._counts) > MAX_SESSIONS:
            self._counts.popitem(last=False)
