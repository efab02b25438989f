"""The list over all agents: complete, in order, page by page, before agents that hang, lie or talk too much."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_common.protocol import ListedRequest, first_page, format_position, parse_position
from agent_host.access import UserSet, parse_users
from agent_host.activity.agent_api import AgentApi
from agent_host.activity.pending import (
    ANSWER_LIMITS,
    DEADLINE_SECONDS,
    MOST_AT_ONCE,
    MOST_LISTED,
    PendingRequests,
    parse_cursor,
)
from agent_host.activity.schemas import PendingPage
from agent_host.activity.view import View
from agent_host.errors import InvalidRequest, NotFound
from agent_host.gateway import AgentConnections

from .agents import Agents, Answer, agents, always, body

EVERYTHING = View()


def request(since: int, call_id: str, user: str = "ann", **more: Any) -> ListedRequest:
    facts = {"session_id": "s", "message_id": "m", "agent": "default", "kind": "question", "tool": "question"}
    more = {"input": {}, "expires_at": since + 1000, "tool_call_id": call_id, **more}
    return ListedRequest.model_validate({**facts, "user": user, "id": call_id, "since": since, **more})


def with_requests(*requests: ListedRequest) -> Answer:
    """An agent that lists these as agents do."""

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        asked = parse_qs(urlsplit(head.split(" ")[1]).query)
        after = parse_position(asked["after"][0]) if "after" in asked else (0, "")
        found = sorted((one for one in requests if one.position > after), key=lambda one: one.position)
        page = first_page(found, int(asked["limit"][0]))
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
)
@example(given_=[("a", 1), ("a", 2), ("b", 3)], limit=1)
async def test_pages_join_to_all_requests_in_order(given_: list[tuple[str, int]], limit: int) -> None:
    by_agent: dict[str, list[ListedRequest]] = {name: [] for name in ("a", "b", "b.c", "c")}
    for number, (name, since) in enumerate(given_):
        by_agent[name].append(request(since, f"c{number}"))
    async with agents({name: with_requests(*rows) for name, rows in by_agent.items()}) as found:
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
)
@example(given_=[("a", 1, "ann"), ("a", 2, "ann"), ("b", 3, "t:1"), ("a", 4, "t:1")], limit=1)
async def test_pages_of_several_users_have_all_their_requests_and_no_others(
    given_: list[tuple[str, int, str]], limit: int
) -> None:
    rows = [(name, request(since, f"c{number}", user)) for number, (name, since, user) in enumerate(given_)]
    answers = {name: with_requests(*(row for its, row in rows if its == name)) for name in ("a", "b")}
    async with agents(answers) as found:
        listed = await collect(listing(found), limit, View(users=parse_users(["t:*", "x"])))
        assert all("x-agent-user" not in head for _, head in found.heads)
    wanted = sorted((row.since, name, row.id) for name, row in rows if row.user in ("t:1", "t:10"))
    assert sorted(listed) == wanted
    assert [row[:2] for row in listed] == [row[:2] for row in wanted]


async def test_an_agent_that_lists_others_without_end_is_given_up() -> None:
    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        after = parse_qs(urlsplit(head.split(" ")[1]).query).get("after", ["0."])[0]
        rows = [request(parse_position(after)[0] + number, "c").model_dump() for number in range(1, 51)]
        writer.write(body(json.dumps({"pending": rows, "next": "1."}).encode()))

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


def page_of(*requests: ListedRequest, more: bool = True) -> Answer:
    rows = [one.model_dump() for one in requests]
    return always(body(json.dumps({"pending": rows} | ({"next": "1."} if more else {})).encode()))


ODD_PAGES: dict[str, Answer] = {
    "none-and-more": page_of(),
    "few-and-more": page_of(request(1, "c")),
    "backwards": page_of(request(3, "c"), request(2, "d"), request(1, "e"), more=False),
    "twice": page_of(request(1, "c"), request(1, "c"), more=False),
    "too-many": page_of(*(request(number, "c") for number in range(1, 11)), more=False),
}


async def test_an_agent_whose_page_is_not_what_was_asked_for_is_named() -> None:
    async with agents({**ODD_PAGES, "good": with_requests(request(10**12, "c"))}) as found:
        page = await listing(found).page(EVERYTHING, None, 3, None)
    assert [row.workspace for row in page.pending] == ["good"]
    assert {one.workspace: one.code for one in page.unreachable} == dict.fromkeys(ODD_PAGES, "invalid_answer")


async def test_an_agent_that_stays_where_it_is_is_named_on_the_next_page() -> None:
    still = page_of(*(request(number, "c") for number in range(1, 4)))
    async with agents({"still": still, "good": with_requests(request(10**12, "c"))}) as found:
        first = await listing(found).page(EVERYTHING, None, 3, None)
        assert first.next is not None
        second = await listing(found).page(EVERYTHING, None, 3, parse_cursor(first.next))
    assert [row.workspace for row in second.pending] == ["good"]
    assert [(one.workspace, one.code) for one in second.unreachable] == [("still", "invalid_answer")]


@pytest.mark.parametrize("more", [True, False])
async def test_one_agent_does_not_hide_what_waits_in_others(more: bool) -> None:
    asked = 0

    async def answer(head: str, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        rows = (request(asked * 500 + number, "c") for number in range(500))
        await page_of(*rows, more=more)(head, writer)

    async with agents({"endless": answer, "good": with_requests(request(10**12, "c"))}) as found:
        pages, after = list[PendingPage](), None
        while not pages or pages[-1].next is not None:
            pages.append(await listing(found).page(EVERYTHING, None, 500, after))
            after = parse_cursor(pages[-1].next) if pages[-1].next is not None else None
    listed = Counter(row.workspace for page in pages for row in page.pending)
    assert listed == {"endless": MOST_LISTED, "good": 1}
    assert [(one.workspace, one.code) for one in pages[-1].unreachable] == [("endless", "too_many")]


async def test_a_silent_agent_takes_no_time_of_others_however_often_it_is_asked() -> None:
    async with agents({"deaf": _hang, "good": with_requests(request(1, "c"))}) as found:
        pending = listing(found)
        beside = [asyncio.create_task(pending.page(EVERYTHING, "deaf", 50, None)) for _ in range(MOST_AT_ONCE + 1)]
        async with asyncio.timeout(DEADLINE_SECONDS - 1):
            await asyncio.sleep(0)
            page = await pending.page(EVERYTHING, "good", 50, None)
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
    assert [row.workspace for row in page.pending] == ["good"]


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
