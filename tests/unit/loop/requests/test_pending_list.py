"""`/pending`: every open request of every session, oldest first, and none that is over."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from agent_common.protocol import ListedRequest, PendingQuery
from agent_runtime.loop import list_pending
from tests.unit.loop.people import ASK, Hands, answer, decide, waits
from tests.unit.loop.support import FakeModel, World, call, say


def listed(it: World, user: str | None = None, **query: Any) -> list[ListedRequest]:
    """All pages, joined."""
    asked, found = PendingQuery(**query), list[ListedRequest]()
    while True:
        page = list_pending(it.hallway, user, asked)
        found += page.pending
        if page.next is None:
            return found
        assert page.pending
        asked = asked.model_copy(update={"after": page.next})


async def test_pages_join_whatever_is_answered_between_them(tmp_path: Path) -> None:
    model = FakeModel([call(("q", "question", ASK), ("r", "question", ASK)) for _ in range(4)])
    async with World(tmp_path, model, catalog=Hands().catalog()) as it:
        turns = []
        for number in range(4):
            turns.append(await waits(await it.send("paint", session=f"s{number}")))
            it.clock.advance(number % 2)  # two of them begin to wait in the same millisecond
        whole = listed(it)
        assert len(whole) == 8
        assert whole == sorted(whole, key=lambda row: row.since) == listed(it, limit=3) == listed(it, limit=1)
        first = list_pending(it.hallway, None, PendingQuery(limit=3))
        for turn in turns[:2]:
            await answer(it, turn, "q", "blue")
        rest = listed(it, after=first.next)
        assert [row for row in whole[3:] if row in listed(it)] == rest


async def test_a_row_has_all_that_an_answer_needs(tmp_path: Path) -> None:
    model = FakeModel([call(("d", "deploy", '{"to": "production"}')), call(("q", "question", ASK))])
    async with World(tmp_path, model, catalog=Hands().catalog("deploy", ask=["deploy"]), answer_seconds=60) as it:
        turn = await waits(await it.send("ship", message_id="m"))
        it.clock.advance(1)
        asked = await waits(await it.send("paint", session="other"))
        approval, question = listed(it)
        assert (approval.kind, approval.tool, approval.input) == ("approval", "deploy", {"to": "production"})
        assert (approval.session_id, approval.message_id, approval.user) == (turn.request.session_name, "m", "operator")
        assert (approval.agent, approval.expires_at - approval.since) == ("default", 60_000)
        assert approval.always
        assert (question.kind, question.tool, question.input) == ("question", "question", json.loads(ASK))
        assert (question.session_id, question.always) == (asked.request.session_name, [])
        assert [listed(it, "operator"), listed(it, "ann")] == [[approval, question], []]


async def test_none_is_shown_that_is_answered_expired_or_aborted(tmp_path: Path) -> None:
    model = FakeModel([*(call((f"d{n}", "deploy", "{}")) for n in range(3)), say("done")])
    async with World(tmp_path, model, catalog=Hands().catalog("deploy", ask=["deploy"]), answer_seconds=60) as it:
        watching = it.events.watch(None)
        await anext(watching)
        turns = [await waits(await it.send("ship", session=f"s{number}")) for number in range(3)]
        assert len(listed(it)) == 3
        await decide(it, turns[0], "d0", "once")
        await it.admission.stop(turns[1])
        assert [row.tool_call_id for row in listed(it)] == ["d2"]
        it.clock.advance(60)
        assert listed(it) == []
        it.admission._expire(turns[2])
        await it.ended(*turns)
        it.events.close()
        said = b"".join([piece async for piece in watching]).decode().split("\n")
    told = [json.loads(line[6:]) for line in said if line.startswith("data: ")]
    resolved = [(one["id"], one["outcome"], one.get("decision")) for one in told if one["type"] == "approval-resolved"]
    asked = [one["id"] for one in told if one["type"] == "approval-requested"]
    assert resolved == [(asked[0], "answered", "once"), (asked[1], "cancelled", None), (asked[2], "expired", None)]


async def test_the_next_process_shows_the_same(tmp_path: Path) -> None:
    model = FakeModel([call(("q", "question", ASK), ("d", "deploy", "{}"), ("r", "question", ASK))])
    catalog = Hands().catalog("deploy", ask=["deploy"])
    async with World(tmp_path, model, catalog=catalog) as it:
        turn = await waits(await it.send("paint", session="mine"))
        await answer(it, turn, "q", "blue")
        before, clock = listed(it), it.clock
        assert [row.tool_call_id for row in sorted(before, key=lambda row: row.id)] == ["d", "r"]
    clock.advance(5)
    async with World(tmp_path, FakeModel(), catalog=catalog, clock=clock) as it:
        assert listed(it) == before


async def test_a_long_page_ends_early(tmp_path: Path) -> None:
    model = FakeModel([call((f"d{n}", "deploy", json.dumps({"x": "y" * 600_000}))) for n in range(3)])
    async with World(tmp_path, model, catalog=Hands().catalog("deploy", ask=["deploy"])) as it:
        await asyncio.gather(*[_send(it, number) for number in range(3)])
        page = list_pending(it.hallway, None, PendingQuery())
        assert len(page.pending) == 2
        assert page.next is not None
        assert len(listed(it)) == 3


async def _send(it: World, number: int) -> None:
    await waits(await it.send("ship", session=f"s{number}"))
