"""The list over all agents: complete, in order, page by page, before agents that hang, lie or talk too much."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_common.protocol import ListedRequest, format_position, parse_position
from agent_host.access import UserSet, parse_users
from agent_host.activity.agent_api import AgentApi
from agent_host.activity.pending import ANSWER_LIMITS, DEADLINE_SECONDS, PendingRequests, parse_cursor
from agent_host.activity.view import View
from agent_host.errors import InvalidRequest, NotFound
from agent_host.gateway import AgentConnections

from .agents import Agents, Answer, agents, always, body

EVERYTHING = View()


def request(since: int, call_id: str, user: str = "ann", **more: Any) -> ListedRequest:
    facts = {"session_id": "s", "message_id": "m", "agent": "default", "kind": "question", "tool": "question"}
    more = {"input": {}, "expires_at": since + 1000, "tool_call_id": call_id, **more}
    return ListedRequest.model_validate({**facts, "user": user, "id": call_id, "since": since, **more})


def with_requests(*requests: ListedRequest, most: int = 500) -> Answer:
    """An agent that lists these as agents do; a page has at most so many."""

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        asked = parse_qs(urlsplit(head.split(" ")[1]).query)
        after = parse_position(asked["after"][0]) if "after" in asked else (0, "")
        found = sorted((one for one in requests if one.position > after), key=lambda one: one.position)
        page = found[: min(int(asked["limit"][0]), most)]
        whole: dict[str, Any] = {"pending": [one.model_dump() for one in page]}
        if len(page) < len(found):
            whole["next"] = format_position(page[-1].position)
        writer.write(body(json.dumps(whole).encode()))

    return answer


def listing(found: Agents, deadline: float = DEADLINE_SECONDS) -> PendingRequests:
    return PendingRequests(found.fleet, AgentApi(found.fleet, AgentConnections()), deadline)


async def collect(pending: PendingRequests, limit: int, view: View = EVERYTHING) -> list[tuple[int, str, str]]:
    """All pages, joined."""
    rows, after = list[tuple[int, str, str]](), None
    while True:
        page = await pending.page(view, None, limit, after)
        assert len(page.pending) <= limit
        rows += [(row.since, row.workspace, row.id) for row in page.pending]
        if page.next is None:
            return rows
        assert page.pending
        after = parse_cursor(page.next)


@settings(max_examples=15)  # each starts servers
@given(
    given_=st.lists(st.tuples(st.sampled_from(["a", "b", "b.c", "c"]), st.integers(1, 4)), max_size=20),
    limit=st.integers(1, 6),
    most=st.integers(1, 4),
)
@example(given_=[("a", 1), ("a", 2), ("b", 3)], limit=3, most=1)
async def test_pages_join_to_all_requests_in_order(given_: list[tuple[str, int]], limit: int, most: int) -> None:
    by_agent: dict[str, list[ListedRequest]] = {name: [] for name in ("a", "b", "b.c", "c")}
    for number, (name, since) in enumerate(given_):
        by_agent[name].append(request(since, f"c{number}"))
    async with agents({name: with_requests(*rows, most=most) for name, rows in by_agent.items()}) as found:
        rows = await collect(listing(found), limit)
    assert sorted(rows) == sorted((row.since, name, row.id) for name, rows_ in by_agent.items() for row in rows_)
    assert [row[:2] for row in rows] == sorted(row[:2] for row in rows)


@settings(max_examples=15)  # each starts servers
@given(
    given_=st.lists(
        st.tuples(st.sampled_from(["a", "b"]), st.integers(1, 4), st.sampled_from(["t:1", "t:10", "T:1", "ann"])),
        max_size=20,
    ),
    limit=st.integers(1, 6),
    most=st.integers(1, 4),
)
@example(given_=[("a", 1, "ann"), ("a", 2, "ann"), ("b", 3, "t:1"), ("a", 4, "t:1")], limit=1, most=1)
async def test_pages_of_several_users_have_all_their_requests_and_no_others(
    given_: list[tuple[str, int, str]], limit: int, most: int
) -> None:
    rows = [(name, request(since, f"c{number}", user)) for number, (name, since, user) in enumerate(given_)]
    answers = {name: with_requests(*(row for its, row in rows if its == name), most=most) for name in ("a", "b")}
    async with agents(answers) as found:
        listed = await collect(listing(found), limit, View(users=parse_users(["t:*", "x"])))
        assert all("x-agent-user" not in head for _, head in found.heads)
    wanted = sorted((row.since, name, row.id) for name, row in rows if row.user in ("t:1", "t:10"))
    assert sorted(listed) == wanted
    assert [row[:2] for row in listed] == [row[:2] for row in wanted]


async def test_an_agent_that_lists_others_without_end_is_given_up() -> None:
    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        after = parse_qs(urlsplit(head.split(" ")[1]).query).get("after", ["0."])[0]
        row = request(parse_position(after)[0] + 1, "c", "ann")
        writer.write(body(json.dumps({"pending": [row.model_dump()], "next": "1."}).encode()))

    async with agents({"endless": answer, "good": with_requests(request(1, "c", "t:1"))}) as found:
        page = await listing(found, 0.2).page(View(users=parse_users(["t:*"])), None, 50, None)
    assert [row.workspace for row in page.pending] == ["good"]
    assert [(one.workspace, one.code) for one in page.unreachable] == [("endless", "agent_unreachable")]


async def _hang(_: str, __: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


BAD: dict[str, Answer] = {
    "no-list": always(body(b"[]")),
    "not-json": always(body(b"{")),
    "other-rows": always(body(b'{"pending": [{"id": 1}]}')),
    "huge": always(body(b" " * (ANSWER_LIMITS.max_bytes + 1))),
    "many-values": always(body(b'{"pending": [' + b"0," * 200_000 + b"0]}")),
    "late": always(body(json.dumps({"pending": [request(1, "x").model_dump() | {"since": 10**17}]}).encode())),
    "later": always(body(json.dumps({"pending": [request(1, "x").model_dump() | {"expires_at": 10**30}]}).encode())),
    "refuses": always(body(b"{}", "500 Internal Server Error")),
    "old": always(body(b"{}", "404 Not Found")),
    "no-http": always(b"hello\r\n\r\n"),
}


async def test_agents_that_answer_nonsense_are_named_and_the_others_are_listed() -> None:
    async with agents({**BAD, "good": with_requests(request(1, "c"))}) as found:
        page = await listing(found).page(EVERYTHING, None, 50, None)
    assert [(row.workspace, row.id) for row in page.pending] == [("good", "c")]
    codes = {one.workspace: one.code for one in page.unreachable}
    assert codes.keys() == BAD.keys()
    unreachable = {name for name, code in codes.items() if code == "agent_unreachable"}
    assert unreachable == {"refuses", "old", "no-http"}
    assert {code for name, code in codes.items() if name not in unreachable} == {"invalid_answer"}


async def test_an_agent_that_is_silent_holds_up_none() -> None:
    async with agents({"deaf": _hang, "good": with_requests(request(1, "c"))}) as found:
        page = await listing(found, 0.2).page(EVERYTHING, None, 50, None)
    assert [row.id for row in page.pending] == ["c"]
    assert [(one.workspace, one.code) for one in page.unreachable] == [("deaf", "agent_unreachable")]


async def test_a_user_is_asked_for_and_the_rows_of_others_are_dropped() -> None:
    async with agents({"a": with_requests(request(1, "hers"), request(2, "his", "bob"))}) as found:
        page = await listing(found).page(View(frozenset({"a"}), UserSet.of("ann")), None, 50, None)
        assert [row.id for row in page.pending] == ["hers"]
        assert "\r\nx-agent-user: ann\r\n" in found.heads[0][1]
        assert "\r\nauthorization: Bearer secret\r\n" in found.heads[0][1]
        await listing(found).page(EVERYTHING, None, 50, None)
        assert "x-agent-user" not in found.heads[1][1]


async def test_an_agent_cannot_make_a_page_longer_or_endless() -> None:
    rows = [request(number, f"c{number}").model_dump() for number in range(1, 11)]
    always_more = body(json.dumps({"pending": rows, "next": "1."}).encode())
    async with agents({"a": always(always_more), "b": always(body(b'{"pending": [], "next": "1."}'))}) as found:
        assert len(await collect(listing(found), 3)) <= 10


async def test_only_what_is_in_view_is_asked() -> None:
    async with agents({name: with_requests(request(1, name)) for name in ("a", "b", "c")}) as found:
        page = await listing(found).page(View(frozenset({"a", "c", "gone"})), None, 50, None)
        assert [row.workspace for row in page.pending] == ["a", "c"]
        page = await listing(found).page(View(frozenset({"b"})), "b", 50, None)
        assert [row.workspace for row in page.pending] == ["b"]
        with pytest.raises(NotFound):
            await listing(found).page(View(frozenset({"gone"})), "gone", 50, None)


@pytest.mark.parametrize("text", ["", "x", "1.2", "1.0123456789abcdef.", "1.0123456789ABCDEF.a"])
def test_a_cursor_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_cursor(text)
