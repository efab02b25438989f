"""Tasks: what their owners say, who sees them, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from agent_common.protocol.hub import (
    EV_SESSION_CLOSED,
    EV_TASK_CANCEL_REQUEST,
    EV_TASK_CANCELLED,
    EV_TASK_EXPIRED,
    MAX_CHECKPOINT,
    MAX_TASK_PART,
    NetworkError,
    NotifyFrame,
    ProtocolError,
    RateLimited,
)
from agent_host.hub import Hub, HubLimits, LinkRights
from agent_testing import ManualClock

from .raw_link import RawLink, join, open_session, opened

FINAL = ("completed", "failed", "expired", "cancelled")


async def show(link: RawLink, task_id: str, **params: Any) -> dict[str, Any]:
    return await link.ask_own("observe_task", task_id=task_id, **params)


async def state(link: RawLink, task_id: str) -> str:
    return (await link.ask_own("get_task", task_id=task_id))["state"]


async def of_type(link: RawLink, event_type: str) -> NotifyFrame:
    while (frame := await link.get()).envelope.event_type != event_type:
        link.ack(frame)
    return frame


async def terminations(hub: Hub) -> list[tuple[str | None, str]]:
    await hub.store.flush()
    return [(row.agent_id, row.detail) for _, row in await hub.store.audit(0, 500) if row.kind == "task_terminated"]


# ---------------------------------------------------------------- states


async def test_a_task_goes_through_its_states_and_its_last_one_stays(url: str) -> None:
    clock = ManualClock()
    async with opened(url, clock=clock) as hub:
        alice = await join(hub, "alice")
        made = await show(alice, "t1", spec={"title": "Count", "payload": {"n": 3, "exact": True}}, ttl=60)
        assert (made["state"], made["started_at"], made["owner_id"]) == ("created", None, alice.agent_id)
        assert made["expires_at"] == made["created_at"] + 60_000
        assert await show(alice, "t1", spec={"title": "Count", "payload": {"n": 3, "exact": True}}) == made, (
            "the same again"
        )
        for spec in ({"title": "Other"}, {"title": "Count", "payload": {"n": 3, "exact": 1}}):
            with pytest.raises(ProtocolError, match="with another spec or session"):
                await show(alice, "t1", spec=spec)
        clock.advance(1)
        running = await alice.ask_own("update_task", task_id="t1", progress={"done": 1})
        assert (running["state"], running["started_at"]) == ("running", made["created_at"] + 1000)
        assert (running["progress"], running["last_progress_at"]) == ({"done": 1}, made["created_at"] + 1000)
        for result in ([True, 2], [1, 2]):  # neither is taken for the other
            await alice.ask_own("update_task", task_id="t1", result=result)
        final = {"task_id": "t1", "state": "completed"}
        over = await alice.ask_own("update_task", **final)
        assert (over["state"], over["result"], over["progress"]) == ("completed", [1, 2], {"done": 1})
        assert await alice.ask_own("update_task", **final) == over, "the last word may be repeated"
        assert await alice.ask_own("update_task", **final, result=[1, 2], progress={"done": 1}) == over
        different: list[dict[str, Any]] = [
            {"state": "running"},
            {"state": "failed", "error": "x"},
            {"progress": 2},
            {"result": [1, 2]},
            {"state": "completed", "result": 3},
            {"state": "completed", "result": [True, 2]},
            {"state": "completed", "progress": 2},
            {"state": "completed", "error": "x"},
        ]
        for change in different:
            with pytest.raises(ProtocolError, match="the task t1 is completed, and stays so"):
                await alice.ask_own("update_task", task_id="t1", **change)
        with pytest.raises(ProtocolError, match="stays so"):
            await alice.ask_own("checkpoint_task", task_id="t1", value=1)
        assert await alice.ask_own("cancel_task", task_id="t1") == over
        clock.advance(100)
        assert await state(alice, "t1") == "completed"
        assert len(await terminations(hub)) == 1


@pytest.mark.parametrize(
    ("op", "params", "why"),
    [
        ("observe_task", {"task_id": "../x"}, "task_id"),
        ("observe_task", {"task_id": "x" * 129}, "task_id"),
        ("observe_task", {"task_id": "x", "spec": {"title": "x" * 201}}, "spec.title"),
        ("observe_task", {"task_id": "x", "spec": {"payload": {"x": "x" * MAX_TASK_PART}}}, "spec: may have 16384"),
        ("observe_task", {"task_id": "x", "ttl": 0}, "ttl"),
        ("update_task", {"task_id": "t", "progress": "x" * MAX_TASK_PART}, "progress: may have 16384"),
        ("update_task", {"task_id": "t", "result": "x" * MAX_TASK_PART}, "result: may have 16384"),
        ("update_task", {"task_id": "t", "state": "expired"}, "state"),
        ("update_task", {"task_id": "t", "error": "x" * 2001}, "error"),
        ("checkpoint_task", {"task_id": "t", "value": "x" * MAX_CHECKPOINT}, "value: may have 262144"),
        ("cancel_task", {"task_id": "t", "reason": "x" * 501}, "reason"),
        ("list_tasks", {"limit": 101}, "limit"),
    ],
)
async def test_what_is_wrong_or_too_large_is_named(op: str, params: dict[str, Any], why: str) -> None:
    async with opened() as hub:
        alice = await join(hub, "alice")
        await show(alice, "t")
        with pytest.raises(ProtocolError, match=why):
            await alice.ask_own(op, **params)
        assert await state(alice, "t") == "created"


# ---------------------------------------------------------------- who may


OPERATIONS: dict[str, dict[str, Any]] = {
    "observe_task": {"spec": {"title": "mine"}},
    "update_task": {"state": "failed"},
    "get_task": {},
    "checkpoint_task": {"value": 1},
    "read_task_checkpoint": {},
    "cancel_task": {"reason": "no"},
}
REFUSED = [
    # who, of the task, operation, code
    ("bob", "shared", "observe_task", "protocol_error"),
    ("bob", "shared", "update_task", "access_denied"),
    ("bob", "shared", "checkpoint_task", "access_denied"),
    ("bob", "shared", "read_task_checkpoint", "access_denied"),
    *(
        (who, task, op, "protocol_error" if op == "observe_task" else "not_found")
        for who, task in (("bob", "private"), ("eve", "private"), ("eve", "shared"))
        for op in OPERATIONS
    ),
    ("operator", "shared", "update_task", "access_denied"),
    ("operator", "shared", "observe_task", "access_denied"),
    ("operator", "shared", "checkpoint_task", "access_denied"),
    ("operator", "shared", "read_task_checkpoint", "access_denied"),
    *(("bob as alice", "shared", op, "access_denied") for op in OPERATIONS),
]


class Cast:
    """Alice has a task in a session with Bob, and one of her own. Eve is somewhere else."""

    def __init__(self, links: dict[str, RawLink], session: str) -> None:
        self.links, self.session = links, session
        self.ids = {who: link.agent_id for who, link in links.items()} | {"bob as alice": links["alice"].agent_id}

    async def ask(self, who: str, op: str, **params: Any) -> Any:
        return await self.links[who.split(maxsplit=1)[0]].ask(op, agent_id=self.ids[who], **params)


@pytest.fixture
async def cast() -> AsyncGenerator[Cast]:
    async with opened() as hub:
        links = {name: await join(hub, name) for name in ("alice", "bob", "eve")}
        session = await open_session(links["alice"], "bob")
        await show(links["alice"], "shared", session_id=session)
        await show(links["alice"], "private")
        operator = RawLink(hub)
        operator.link = hub.connect(operator._take, LinkRights(reads_all=True))  # type: ignore[reportPrivateUsage]
        yield Cast({**links, "operator": operator}, session)


async def test_who_may_not_is_refused_and_nothing_changes(cast: Cast) -> None:
    """What nobody else may see answers as if it did not exist."""
    before = [await cast.ask("alice", "get_task", task_id=task) for task in ("shared", "private")]
    got: list[tuple[str, str, str, str]] = []
    for who, task, op, _ in REFUSED:
        with pytest.raises(NetworkError) as refused:
            await cast.ask(who, op, task_id=task, **OPERATIONS[op])
        got.append((who, task, op, refused.value.code))
    assert got == REFUSED
    with pytest.raises(NetworkError, match="there is no task private"):
        await cast.ask("eve", "get_task", task_id="private")
    assert [await cast.ask("alice", "get_task", task_id=task) for task in ("shared", "private")] == before


async def test_who_may_see_a_task_sees_it(cast: Cast) -> None:
    for who in ("alice", "bob", "operator"):
        assert (await cast.ask(who, "get_task", task_id="shared"))["task_id"] == "shared"
    listed = {
        who: [one["task_id"] for one in (await cast.ask(who, "list_tasks"))["tasks"]]
        for who in ("alice", "bob", "eve", "operator")
    }
    assert listed == {"alice": ["private", "shared"], "bob": [], "eve": [], "operator": ["private", "shared"]}
    for who in ("alice", "bob", "operator"):
        page = await cast.ask(who, "list_tasks", session_id=cast.session, state="created")
        assert [one["task_id"] for one in page["tasks"]] == ["shared"]
    first = await cast.ask("alice", "list_tasks", limit=1)
    second = await cast.ask("alice", "list_tasks", limit=1, after=first["next"])
    assert [one["tasks"][0]["task_id"] for one in (first, second)] == ["private", "shared"]
    assert second.get("next") is None
    with pytest.raises(NetworkError, match="does not take part") as refused:
        await cast.ask("eve", "list_tasks", session_id=cast.session)
    assert refused.value.code == "access_denied"
    with pytest.raises(NetworkError, match="does not take part"):
        await cast.ask("eve", "observe_task", task_id="intruder", session_id=cast.session)


# ---------------------------------------------------------------- limits and time


async def test_a_rule_and_the_hub_bound_how_many_are_live(url: str) -> None:
    async with opened(url, limits=HubLimits(live_tasks=3)) as hub:
        alice, bob = await join(hub, "alice", rule={"max_concurrent_tasks": 2}), await join(hub, "bob")
        results = await asyncio.gather(*(show(alice, f"a{n}") for n in range(4)), return_exceptions=True)
        assert [isinstance(one, RateLimited) for one in results].count(True) == 2
        (first, *_) = [one["task_id"] for one in results if isinstance(one, dict)]
        await alice.ask_own("update_task", task_id=first, state="failed", error="x")
        await alice.ask_own("checkpoint_task", task_id="a9", value=1)  # counts like any other
        with pytest.raises(RateLimited, match="has 2 tasks that are not over"):
            await show(alice, "a10")
        for n in range(3):
            await show(bob, f"b{n}")
        with pytest.raises(RateLimited, match="has 3 tasks"):
            await show(bob, "b3")


async def test_tasks_expire_as_the_rule_says_also_after_a_restart(file_url: str) -> None:
    clock = ManualClock()
    async with opened(file_url, clock=clock) as hub:
        alice, bob = await join(hub, "alice", rule={"task_ttl": "15m"}), await join(hub, "bob")
        session = await open_session(alice, "bob")
        await show(alice, "in", session_id=session)
        await show(alice, "longer", ttl=3600)
        await show(bob, "day")
        clock.advance(901)
        event = await of_type(bob, EV_TASK_EXPIRED)
        assert (event.envelope.event_data["task_id"], event.envelope.sender_id) == ("in", "hub")
        assert await state(alice, "in") == "expired"
        assert await state(alice, "longer") == "created"
    async with opened(file_url, clock=clock) as hub:
        clock.advance(86_400)
        async with asyncio.timeout(60):
            while len(await terminations(hub)) < 3:
                await asyncio.sleep(0)
        bob = await join(hub, "bob")
        assert await state(bob, "day") == "expired"


async def test_deadlines_of_finished_tasks_do_not_pile_up() -> None:
    clock, few = ManualClock(), 5
    async with opened(clock=clock, limits=HubLimits(idle_deadlines=few)) as hub:
        alice = await join(hub, "alice")
        await show(alice, "kept", ttl=60)
        for n in range(20):
            await show(alice, f"t{n}", ttl=1e9)
            await show(alice, f"t{n}", ttl=1e9)
            await alice.ask_own("update_task", task_id=f"t{n}", state="completed")
        assert len(hub.tasks.deadlines) <= 21
        async with asyncio.timeout(60):
            while len(hub.tasks.deadlines) > 2 * few:
                await asyncio.sleep(0)
        clock.advance(61)
        async with asyncio.timeout(60):
            while await state(alice, "kept") != "expired":
                await asyncio.sleep(0)


async def test_the_end_of_a_session_ends_its_tasks_before_it_is_said(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        await show(alice, "a", session_id=session)
        await show(bob, "b", session_id=session)
        await show(bob, "elsewhere")
        await bob.ask_own("update_task", task_id="b", state="completed")
        await alice.ask_own("close", session_id=session, reason="enough")
        await of_type(bob, EV_SESSION_CLOSED)
        rows = {row.task_id: row.state for row in [await hub.store.task(one) for one in ("a", "b", "elsewhere")] if row}
        assert rows == {"a": "expired", "b": "completed", "elsewhere": "created"}
        assert (await alice.ask_own("get_task", task_id="a"))["error"] == "its session has ended: enough"
        with pytest.raises(ProtocolError, match="is closed: enough"):
            await show(alice, "late", session_id=session)
        assert [(who, '"a"' in detail) for who, detail in await terminations(hub)] == [
            (bob.agent_id, False), (alice.agent_id, True)
        ]  # fmt: skip


async def test_no_task_outlives_its_session_whatever_comes_at_the_same_moment(url: str) -> None:
    async with opened(url) as hub:
        alice, _ = await join(hub, "alice"), await join(hub, "bob")
        for n in range(10):
            session = await open_session(alice, "bob")
            await show(alice, f"old{n}", session_id=session)
            await asyncio.gather(
                *(show(alice, f"new{n}.{k}", session_id=session) for k in range(3)),
                *(alice.ask_own("update_task", task_id=f"old{n}", progress=k) for k in range(3)),
                alice.ask_own("close", session_id=session),
                *(alice.ask_own("update_task", task_id=f"old{n}", progress=k) for k in range(3)),
                return_exceptions=True,
            )
            page = await alice.ask_own("list_tasks", session_id=session)
            assert {one["state"] for one in page["tasks"]} <= {"expired"}, page


async def test_what_is_said_at_the_same_moment_is_not_lost_and_revives_nothing(url: str) -> None:
    async with opened(url) as hub:
        alice = await join(hub, "alice")
        for n in range(5):
            task = {"task_id": f"t{n}"}
            await show(alice, **task)
            updates = [alice.ask_own("update_task", **task, progress=1), alice.ask_own("update_task", **task, result=2)]
            await asyncio.gather(*updates)
            both = await alice.ask_own("get_task", **task)
            assert (both["progress"], both["result"]) == (1, 2)
            await asyncio.gather(
                *(alice.ask_own("update_task", **task, progress=k) for k in range(3)),
                alice.ask_own("cancel_task", **task),
                *(alice.ask_own("update_task", **task, progress=k) for k in range(3)),
                return_exceptions=True,
            )
            assert await state(alice, task["task_id"]) == "cancelled"


async def test_an_agent_that_is_unregistered_leaves_no_live_task(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        await show(alice, "a")
        await show(bob, "b")
        await alice.ask_own("unregister")
        row = await hub.store.task("a")
        assert row is not None
        assert row.state == "expired"
        assert await state(bob, "b") == "created"


# ---------------------------------------------------------------- cancelling


async def test_the_owner_and_an_operator_cancel_and_a_peer_asks_once(cast: Cast) -> None:
    bob = cast.links["bob"]
    asked = await cast.ask("bob", "cancel_task", task_id="shared", reason="too long")
    assert (asked["state"], asked["cancel_requested_by"]) == ("created", [bob.agent_id])
    again = await cast.ask("bob", "cancel_task", task_id="shared", reason="really")
    assert again == asked
    request = (await of_type(cast.links["alice"], EV_TASK_CANCEL_REQUEST)).envelope
    assert request.event_data == {"task_id": "shared", "reason": "too long", "requested_by": bob.agent_id}
    over = await cast.ask("alice", "cancel_task", task_id="shared", reason="as you wish")
    assert (over["state"], over["error"]) == ("cancelled", "as you wish")
    said = (await of_type(bob, EV_TASK_CANCELLED)).envelope
    assert said.event_data == {"task_id": "shared", "reason": "as you wish"}
    assert await cast.ask("bob", "cancel_task", task_id="shared") == over
    log = await bob.ask_own("read_log", session_id=cast.session)
    assert [one["event_type"] for one in log["envelopes"]].count(EV_TASK_CANCEL_REQUEST) == 1
    by_operator = await cast.ask("operator", "cancel_task", task_id="private", reason="stop")
    assert by_operator["state"] == "cancelled"


@pytest.mark.parametrize("event_type", [EV_TASK_CANCELLED, EV_TASK_CANCEL_REQUEST, EV_TASK_EXPIRED, "ag2.task.x"])
async def test_no_agent_says_what_only_the_hub_says_about_tasks(cast: Cast, event_type: str) -> None:
    with pytest.raises(ProtocolError, match=f"only the hub sends {event_type}"):
        await cast.links["bob"].send(cast.session, event_type=event_type, event_data={"task_id": "shared"})


# ---------------------------------------------------------------- checkpoints


async def test_a_checkpoint_is_kept_and_its_first_writer_owns_it(file_url: str) -> None:
    async with opened(file_url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        await alice.ask_own("checkpoint_task", task_id="t", value={"step": 1})
        for op, params in (("checkpoint_task", {"value": 2}), ("read_task_checkpoint", {}), ("get_task", {})):
            with pytest.raises(NetworkError, match="there is no task t"):
                await bob.ask_own(op, task_id="t", **params)
        shown = await show(alice, "t", spec={"title": "Shown later"}, ttl=60)
        assert (shown["spec"]["title"], shown["state"]) == ("Shown later", "created")
        assert shown["expires_at"] - shown["created_at"] < 120_000
        assert await alice.ask_own("read_task_checkpoint", task_id="t") == {"step": 1}
        await alice.ask_own("checkpoint_task", task_id="t", value=["\0", None])
        await show(alice, "none")
        assert await alice.ask_own("read_task_checkpoint", task_id="none") is None
    async with opened(file_url) as hub:
        alice = await join(hub, "alice")
        assert await alice.ask_own("read_task_checkpoint", task_id="t") == ["\0", None]


def test_the_states_that_stay_are_those_of_the_page() -> None:
    page = (Path(__file__).parents[4] / "docs/protocols/hub.md").read_text("utf-8")
    assert all(f"`{one}`" in page for one in ("created", "running", *FINAL))
