"""`web_search`: what it passes on, and how often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent_common.protocol import SearchHit
from agent_runtime.errors import MeshUnavailable
from agent_runtime.ports import ToolContext, ToolResult
from agent_runtime.tools import Tool, ToolGate
from agent_runtime.tools.web.search import MAX_SEARCHES, MAX_SESSIONS, web_search_tool

from .doubles import finished

HIT = SearchHit(title="One", url="https://example.org/", snippet="first")


class Found:
    """A search that always finds the same."""

    def __init__(self, *hits: SearchHit, error: Exception | None = None) -> None:
        self.asked: list[tuple[str, int, str]] = []
        self._hits, self._error = hits, error

    async def search(self, query: str, limit: int, session_id: str) -> Sequence[SearchHit]:
        self.asked.append((query, limit, session_id))
        if self._error:
            raise self._error
        return self._hits


async def call(tool: Tool, context: ToolContext, **arguments: Any) -> ToolResult:
    return finished(await ToolGate().run(tool, arguments, context))


async def test_results_have_the_published_shape(context: ToolContext) -> None:
    found = Found(HIT)
    tool = web_search_tool(found)
    result = await call(tool, context, query="  what \n is\ud800 it ", max_results=3)
    assert result.data == {"results": [{"title": "One", "url": "https://example.org/", "snippet": "first"}]}
    await call(tool, context, query="x")
    assert found.asked == [("what is? it", 3, "ses_1"), ("x", 8, "ses_1")]
    assert tool.spec.read_only


async def test_nothing_found_is_said(context: ToolContext) -> None:
    result = await call(web_search_tool(Found()), context, query="x")
    assert (result.data["results"], "nothing was found" in result.data["note"]) == ([], True)


async def test_a_session_has_25_searches_and_failed_ones_count(context: ToolContext) -> None:
    found = Found(error=MeshUnavailable("no"))
    tool = web_search_tool(found)
    for _ in range(MAX_SEARCHES):
        assert (await call(tool, context, query="x")).metadata["kind"] == "unavailable"
    over = await call(tool, context, query="x")
    assert (over.metadata["kind"], "used its 25 searches" in (over.error_text or "")) == ("denied", True)
    assert len(found.asked) == MAX_SEARCHES
    other = await call(tool, replace(context, session_id="ses_2"), query="x")
    assert other.metadata["kind"] == "unavailable"


async def test_bad_arguments_cost_no_search(context: ToolContext) -> None:
    found = Found(HIT)
    tool = web_search_tool(found)
    bad: list[dict[str, Any]] = [
        *({}, {"query": ""}, {"query": " \n"}, {"query": "x" * 501}, {"query": "x", "max_results": 0}),
        *({"query": "x", "max_results": 21}, {"query": "x", "engine": "y"}),
    ]
    for arguments in bad:
        assert (await call(tool, context, **arguments)).metadata["kind"] == "invalid", arguments
    assert found.asked == []


async def test_no_more_sessions_are_remembered_than_that(context: ToolContext) -> None:
    found = Found(HIT)
    tool = web_search_tool(found)
    for number in range(MAX_SESSIONS + 1):
        await tool.run({"query": "x"}, replace(context, session_id=f"ses_{number}"))
    for _ in range(MAX_SEARCHES):
        await tool.run({"query": "x"}, replace(context, session_id="ses_0"))
    assert len(found.asked) == MAX_SESSIONS + 1 + MAX_SEARCHES
