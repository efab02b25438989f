"""Sessions: who may open, write, read and close them, and what the hub does with them by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

import pytest

from agent_common.protocol.hub import (
    EV_CONTEXT_SET,
    EV_EXPECTATION_VIOLATED,
    EV_SESSION_CLOSED,
    EV_SESSION_EXPIRED,
    EV_SESSION_INVITE,
    EV_SESSION_INVITE_ACK,
    EV_SESSION_INVITE_REJECT,
    EV_TEXT,
    AccessDeniedError,
    NetworkError,
    NotFoundError,
    ProtocolError,
    RateLimited,
)
from agent_host.hub import Hub
from agent_host.hub.links import OPERATIONS
from agent_testing import ManualClock

from .raw_link import RawLink, join, open_session, opened


async def state_of(hub: Hub, session: str) -> tuple[str, str | None]:
    info = await hub.queries.info(None, session)
    return info.state, info.close_reason


async def test_a_consultation_is_invited_opened_answered_and_over(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob", kind="consulting", labels={"about": "sums"})
        asked = await alice.send(session, "What is the total?")
        frame = await bob.get_text()
        await bob.send(session, "42", causation_id=asked)
        bob.ack(frame, outcome="replied")
        assert (await alice.get_text()).envelope.causation_id == asked
        log = (await bob.ask_own("read_log", session_id=session))["envelopes"]
        assert [(one["sequence"], one["event_type"].rpartition(".")[2]) for one in log] == [
            (1, "invite"), (2, "ack"), (3, "opened"), (4, "text"), (5, "text"), (6, "closed"),
        ]  # fmt: skip
        assert [one["envelope_id"] for one in log] == sorted(one["envelope_id"] for one in log)
        info = await alice.ask_own("info", session_id=session)
        assert (info["state"], info["close_reason"]) == ("closed", "consulting_complete")
        turn = await bob.ask_own("turn", session_id=session, envelope_id=asked, sequence=4)
        assert turn == {"reply": log[4]["envelope_id"], "outcome": "replied"}


async def test_an_invitation_may_be_rejected_or_left_unanswered() -> None:
    clock = ManualClock()
    async with opened(clock=clock) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        bob.accepts_invitations = False
        opening = asyncio.create_task(open_session(alice, "bob"))
        frame = await bob.get()
        assert frame.envelope.event_type == EV_SESSION_INVITE
        with pytest.raises(ProtocolError, match="is not open yet"):
            await alice.send(frame.envelope.session_id)
        await bob.send(frame.envelope.session_id, event_type=EV_SESSION_INVITE_REJECT)
        with pytest.raises(ProtocolError, match="was not opened: invite_rejected"):
            await opening
        opening = asyncio.create_task(open_session(alice, "bob"))
        while (await bob.get()).envelope.event_type != EV_SESSION_INVITE:
            pass
        clock.advance(30)
        with pytest.raises(ProtocolError, match="was not opened: invite_timeout"):
            await opening
        assert len(hub.agents.get("alice").opened) == 0


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"ttl": 5}, "ttl_expired"),
        ({"knobs": {"expectations": [{"name": "acks_within", "seconds": 5, "on_violation": "auto_close"}]}}, "acks"),
        ({}, "participant_unregistered"),
    ],
)
async def test_a_session_that_is_over_before_it_is_open_was_not_opened(params: dict[str, Any], why: str) -> None:
    clock = ManualClock()
    async with opened(clock=clock) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        bob.accepts_invitations = False
        opening = asyncio.create_task(open_session(alice, "bob", **params))
        await bob.get()
        if params:
            clock.advance(6)
        else:
            await bob.ask_own("unregister")
        with pytest.raises(ProtocolError, match=f"was not opened: .*{why}"):
            await opening


async def test_a_session_expires_when_its_time_has_come(url: str) -> None:
    clock = ManualClock()
    async with opened(url, clock=clock) as hub:
        alice, bob = await join(hub, "alice", rule={"session_ttl": "2m"}), await join(hub, "bob")
        by_rule, by_call = await open_session(alice, "bob"), await open_session(alice, "bob", ttl=60)
        clock.advance(60)
        await hub.store.flush()
        assert (await state_of(hub, by_call), (await state_of(hub, by_rule))[0]) == (
            ("expired", "ttl_expired"),
            "active",
        )
        clock.advance(60)
        await hub.store.flush()
        assert await state_of(hub, by_rule) == ("expired", "ttl_expired")
        with pytest.raises(ProtocolError, match="is expired: ttl_expired"):
            await alice.send(by_rule)
        seen = [bob.notifies.get_nowait().envelope.event_type for _ in range(bob.notifies.qsize())]
        assert seen.count(EV_SESSION_EXPIRED) == 2


# ---------------------------------------------------------------- what is not yours

FOREIGN: dict[str, dict[str, Any]] = {
    "info": {},
    "read_log": {},
    "close": {},
    "can_send": {},
    "turn": {"envelope_id": "env_1", "sequence": 1},
    "open": {"type": "conversation", "targets": ["dave"]},
    "observe_task": {"task_id": "theirs"},
    "list_tasks": {},
}
"""Operations on a session, with what they want besides. A session is opened within another one."""
OWN: dict[str, dict[str, Any]] = {
    "unregister": {},
    "set_rule": {"rule": {}},
    "set_resume": {"resume": {"summary": "hers"}},
    "sessions": {},
    "list_tasks": {},
    "checkpoint_task": {"task_id": "theirs", "value": 1},
    "open": {"type": "conversation", "targets": ["dave"]},
}
"""Operations on an agent."""


FOR_ALL = {"register", "get_agent", "list_agents"}
TASK_OPERATIONS = {"update_task", "get_task", "read_task_checkpoint", "cancel_task"}
"""Operations on a task: those that may not see it are told that there is none, which tests of tasks show."""


async def refused(work: Awaitable[Any]) -> bool:
    try:
        await work
    except AccessDeniedError:
        return True
    return False


async def test_what_is_not_yours_is_refused_for_each_operation() -> None:
    """An agent tries what is another's: reading, writing, ending and acknowledging, in its own name and in others'."""
    async with opened() as hub:
        alice, bob, eve, _ = [await join(hub, name) for name in ("alice", "bob", "eve", "dave")]
        session, attempts = await open_session(alice, "bob"), dict[tuple[str, ...], bool]()
        await alice.send(session, "secret")
        frame = await bob.get_text()
        ids = {"eve": eve.agent_id, "alice": alice.agent_id, "bob": bob.agent_id}
        for name, agent_id in ids.items():
            for op, wanted in FOREIGN.items():
                params = {**wanted, "parent" if op == "open" else "session_id": session}
                if op != "can_send" or name == "eve":  # which is about an agent, in nobody's name
                    attempts[op, name] = await refused(eve.ask(op, agent_id=agent_id, **params))
            for op, params in OWN.items() if name != "eve" else ():
                attempts[op, name, "own"] = await refused(eve.ask(op, agent_id=agent_id, **params))
            eve.agent_id = agent_id
            for event_type in (EV_TEXT, EV_SESSION_INVITE_ACK, EV_CONTEXT_SET, "app.note"):
                attempts[event_type, name] = await refused(eve.send(session, event_type=event_type))
            eve.subscribe(session)
            attempts["subscribe", name] = (await asyncio.wait_for(eve.others.get(), 60)).kind == "error"
            eve.ack(frame)  # the last time in the name of bob: no effect
            eve.nack(frame)
        assert [attempt for attempt, was_refused in attempts.items() if not was_refused] == []
        assert len(attempts) >= 30
        assert OPERATIONS.keys() - {attempt[0] for attempt in attempts} == FOR_ALL | TASK_OPERATIONS
        assert hub.delivery.inboxes.of(hub.agents.get("bob")).pending == 1
        assert (await state_of(hub, session))[0] == "active"


async def test_an_audience_holds_for_each_way_of_reading(url: str) -> None:
    async with opened(url) as hub:
        alice, bob, carol = [await join(hub, name) for name in ("alice", "bob", "carol")]
        session = await open_session(alice, "bob", "carol", kind="discussion")
        await alice.send(session, "for bob", audience=[bob.agent_id])
        await bob.send(session, "for all")
        assert (await carol.get_text()).envelope.text == "for all"
        assert (await bob.get_text()).envelope.text == "for bob"
        logs = [(await one.ask_own("read_log", session_id=session))["envelopes"] for one in (alice, bob, carol)]
        assert [sum(one["event_data"].get("text") == "for bob" for one in log) for log in logs] == [1, 1, 0]


async def test_only_the_creator_or_an_operator_closes() -> None:
    async with opened() as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        with pytest.raises(AccessDeniedError, match="only its creator or an operator closes"):
            await bob.ask_own("close", session_id=session)
        operator = RawLink(hub, reads_all=True)
        await operator.ask("close", session_id=session, reason="by the operator")
        assert await state_of(hub, session) == ("closed", "by the operator")


# ---------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("rule", "of", "kind", "fault"),
    [
        ({"session_types": {"initiate": []}}, "alice", AccessDeniedError, "does not let it open a conversation"),
        ({"session_types": {"accept": ["consult*"]}}, "bob", AccessDeniedError, "invited to a conversation"),
        ({"access": {"outbound_to": ["team-*"]}}, "alice", AccessDeniedError, "does not let it invite bob"),
        (
            {"access": {"inbound_from": ["carol"]}},
            "bob",
            AccessDeniedError,
            "the rule of bob does not let alice invite",
        ),
    ],
)
async def test_rules_of_opening(rule: dict[str, Any], of: str, kind: type[NetworkError], fault: str) -> None:
    async with opened() as hub:
        links = {name: await join(hub, name, rule=rule if name == of else {}) for name in ("alice", "bob")}
        with pytest.raises(kind, match=fault):
            await open_session(links["alice"], "bob")


async def test_a_rule_may_bound_open_sessions_and_may_change_later(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice", rule={"max_concurrent_sessions": 1}), await join(hub, "bob")
        session = await open_session(alice, "bob")
        with pytest.raises(RateLimited, match="allows 1 open sessions"):
            await open_session(alice, "bob")
        await alice.ask_own("close", session_id=session)
        session = await open_session(alice, "bob")
        await bob.ask_own("set_rule", rule={"access": {"inbound_from": []}})
        with pytest.raises(AccessDeniedError, match="does not let alice send to it"):
            await alice.send(session)


async def test_openings_with_one_key_are_one_session_also_at_once_and_while_it_is_written_to(url: str) -> None:
    async with opened(url) as hub:
        alice, _ = await join(hub, "alice"), await join(hub, "bob")
        first, second = await asyncio.gather(*(open_session(alice, "bob", key="k") for _ in range(2)))
        assert (first, len(hub.agents.get("alice").opened)) == (second, 1)
        sending = alice.start_send(first)
        assert await open_session(alice, "bob", key="k") == first
        await sending
        await join(hub, "carol")
        for other in ({"targets": ["carol"]}, {"kind": "consulting"}, {"knobs": {"x": 1}}, {"labels": {"x": "1"}}):
            given: dict[str, Any] = {"kind": "conversation", "targets": ["bob"], **other}
            with pytest.raises(ProtocolError, match="key: you have opened another session with it"):
                await open_session(alice, *given.pop("targets"), key="k", **given)
        await open_session(alice, "bob", kind="workflow", key="w", knobs={"context_vars": {"x": True}})
        with pytest.raises(ProtocolError, match="key: you have opened another session with it"):
            await open_session(alice, "bob", kind="workflow", key="w", knobs={"context_vars": {"x": 1}})


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        ({"type": "party", "targets": ["bob"]}, "type: party is none of consulting"),
        ({"type": "consulting", "targets": []}, "open: targets: Tuple should have at least 1 item"),
        ({"type": "consulting", "targets": ["bob"], "speed": 1}, "open: speed: unknown field; remove it"),
        ({"type": "consulting", "targets": ["alice"]}, "an agent is named twice, or is the creator"),
    ],
)
async def test_what_cannot_be_opened_says_why(params: dict[str, Any], fault: str) -> None:
    async with opened() as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        with pytest.raises(ProtocolError, match=fault):
            await alice.ask_own("open", **params)
        with pytest.raises(NotFoundError, match="no agent nobody is registered"):
            await open_session(alice, "nobody")
        with pytest.raises(ProtocolError, match="op: fly is none of register"):
            await alice.ask("fly")


async def test_a_session_within_a_turn_cannot_wait_for_itself_or_lie_too_deep() -> None:
    async with opened() as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob", rule={"delegation_depth": 1})
        carol = await join(hub, "carol", rule={"delegation_depth": 1})
        await join(hub, "dave")
        outer = await open_session(alice, "bob")
        with pytest.raises(ProtocolError, match="alice waits for this turn, and would wait for itself"):
            await open_session(bob, "alice", parent=outer)
        inner = await open_session(bob, "carol", parent=outer)
        with pytest.raises(ProtocolError, match="alice waits for this turn"):
            await open_session(carol, "alice", parent=inner)
        with pytest.raises(AccessDeniedError, match="the rule of carol allows a depth of 1"):
            await open_session(carol, "dave", parent=inner)
        with pytest.raises(AccessDeniedError, match="does not take part"):
            await open_session(alice, "dave", parent=inner)
        again = await open_session(bob, "dave", parent=await open_session(bob, "carol"))
        with pytest.raises(AccessDeniedError, match="the rule of bob allows a depth of 1"):
            await open_session(bob, "dave", parent=again)


async def test_an_agent_that_has_unregistered_is_no_agent_of_its_link() -> None:
    async with opened() as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        frame = await bob.get()
        await bob.ask("unregister", agent_id="")
        bob.ack(frame)  # it comes too late, and ends nothing
        with pytest.raises(AccessDeniedError, match="no agent is registered over this link"):
            await bob.ask("info", session_id=session)


# ---------------------------------------------------------------- expectations


async def late(action: str, kind: str = "discussion") -> tuple[Hub, list[RawLink], str, ManualClock]:
    clock = ManualClock()
    hub = await Hub.open(clock=clock)
    links = [await join(hub, name) for name in ("alice", "bob", "carol")]
    expected = [{"name": "turn_within", "seconds": 60, "on_violation": action}]
    session = await open_session(links[0], "bob", "carol", kind=kind, knobs={"expectations": expected})
    await links[0].send(session, "your turn, bob")
    for link in links:
        while not link.notifies.empty():
            link.ack(link.notifies.get_nowait())
    clock.advance(59)
    assert [link.notifies.qsize() for link in links] == [0, 0, 0]
    clock.advance(2)
    await asyncio.sleep(0)
    return hub, links, session, clock


@pytest.mark.parametrize(
    ("action", "told", "speaker", "state"),
    [
        ("audit", [0, 0, 0], "bob", "active"),
        ("notify_session", [1, 1, 1], "bob", "active"),
        ("warn", [0, 1, 0], "bob", "active"),
        ("hide", [1, 1, 1], "carol", "active"),
        ("remove", [1, 1, 1], "carol", "active"),
        ("auto_close", [1, 1, 1], None, "closed"),
    ],
)
async def test_a_turn_that_is_late(action: str, told: list[int], speaker: str | None, state: str) -> None:
    hub, links, session, clock = await late(action)
    wanted = EV_SESSION_CLOSED if action == "auto_close" else EV_EXPECTATION_VIOLATED
    seen = [[one.envelope.event_type for one in list(link.notifies._queue)] for link in links]  # type: ignore[attr-defined]
    assert [one.count(wanted) for one in seen] == told
    assert (await state_of(hub, session))[0] == state
    if speaker is not None:
        can = [await links[0].ask("can_send", session_id=session, agent_id=link.agent_id) for link in links]
        assert can == [name == speaker for name in ("alice", "bob", "carol")]
    audit = [row for _, row in await hub.store.audit(0, 99) if row.kind == "expectation_violated"]
    assert len(audit) == 1
    clock.advance(50)  # the same one is acted upon once
    audit = [row for _, row in await hub.store.audit(0, 99) if row.kind == "expectation_violated"]
    assert len(audit) == 1
    if action == "remove":
        with pytest.raises(AccessDeniedError, match="does not take part"):
            await links[1].send(session, "too late")
        links[1].subscribe(session)
        while not hub.delivery.is_watched(session):
            await asyncio.sleep(0)
        await links[2].send(session, "without bob")
        assert (await links[0].get_text()).envelope.text == "without bob"
        assert "without bob" not in links[1].waiting()
        with pytest.raises(AccessDeniedError, match="nobody of this link takes part in the session"):
            await links[1].ask_own("read_log", session_id=session)
        assert (await links[1].ask_own("info", session_id=session))["removed"] == [links[1].agent_id]
    await hub.close()


async def test_who_was_removed_and_is_unregistered_later_closes_nothing() -> None:
    hub, links, session, _ = await late("remove")
    await links[1].ask_own("unregister")
    assert (await state_of(hub, session))[0] == "active"
    await hub.close()


@pytest.mark.parametrize(("kind", "expectation"), [("consulting", "reply_within"), ("conversation", "max_silence")])
async def test_a_session_that_all_but_one_have_left_is_over(kind: str, expectation: str) -> None:
    clock = ManualClock()
    async with opened(clock=clock) as hub:
        alice, _ = await join(hub, "alice"), await join(hub, "bob")
        expected = [{"name": expectation, "seconds": 60, "on_violation": "remove"}]
        session = await open_session(alice, "bob", kind=kind, knobs={"expectations": expected})
        await alice.send(session, "why?")
        clock.advance(61)
        assert await state_of(hub, session) == ("closed", f"{kind}_deserted")


async def test_an_invitation_waits_as_long_as_the_session_says() -> None:
    clock = ManualClock()
    async with opened(clock=clock) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        bob.accepts_invitations = False
        knobs = {"expectations": [{"name": "acks_within", "seconds": 60, "on_violation": "auto_close"}]}
        opening = asyncio.create_task(open_session(alice, "bob", knobs=knobs))
        frame = await bob.get()
        clock.advance(40)
        await bob.send(frame.envelope.session_id, event_type=EV_SESSION_INVITE_ACK)
        assert (await state_of(hub, await opening))[0] == "active"


@pytest.mark.parametrize(
    ("knobs", "action", "reason"),
    [
        ({}, "auto_close", "expectation:acks_within"),
        (
            {"expectations": [{"name": "acks_within", "seconds": 20, "on_violation": "audit"}]},
            "audit",
            "invite_timeout",
        ),
        (
            {"expectations": [{"name": "acks_within", "seconds": 30, "on_violation": "audit"}]},
            "audit",
            "invite_timeout",
        ),
    ],
)
async def test_who_does_not_answer_an_invitation_is_recorded(knobs: dict[str, Any], action: str, reason: str) -> None:
    clock = ManualClock()
    async with opened(clock=clock) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        bob.accepts_invitations = False
        opening = asyncio.create_task(open_session(alice, "bob", kind="consulting", knobs=knobs))
        await bob.get()
        clock.advance(29)
        clock.advance(1)
        with pytest.raises(ProtocolError, match=f"was not opened: {reason}"):
            await opening
        rows = [json.loads(row.detail) for _, row in await hub.store.audit(0, 99) if row.kind == "expectation_violated"]
        assert [(row["expectation"], row["violators"], row["action"]) for row in rows] == [
            ("acks_within", [bob.agent_id], action),
        ]  # fmt: skip


@pytest.mark.parametrize("accepts", [True, False])
async def test_those_who_accept_go_on_without_those_who_do_not_answer(accepts: bool) -> None:
    clock = ManualClock()
    async with opened(clock=clock) as hub:
        alice, bob, carol = [await join(hub, name) for name in ("alice", "bob", "carol")]
        bob.accepts_invitations, carol.accepts_invitations = accepts, False
        expected = [{"name": "acks_within", "seconds": 5, "on_violation": "remove"}]
        knobs = {"expectations": expected}
        opening = asyncio.create_task(open_session(alice, "bob", "carol", kind="discussion", knobs=knobs))
        while (await carol.get()).envelope.event_type != EV_SESSION_INVITE:
            pass
        clock.advance(6)
        if accepts:
            assert (await state_of(hub, await opening))[0] == "active"
        else:
            with pytest.raises(ProtocolError, match="was not opened: invite_timeout"):
                await opening


@pytest.mark.parametrize("kind", ["discussion", "workflow"])
async def test_a_session_in_which_nobody_takes_a_turn_is_over_after_a_round(kind: str) -> None:
    hub, links, session, clock = await late("hide", kind)
    clock.advance(60)
    await links[0].send(session, "at last")  # the others count anew
    for _ in range(2):
        assert (await state_of(hub, session))[0] == "active"
        clock.advance(61)
    live = hub.table.live[session]
    assert len(live.fired) <= 1
    clock.advance(61)
    assert await state_of(hub, session) == ("closed", f"{kind}_deserted")
    await hub.close()


async def test_silence_is_due_from_the_last_text() -> None:
    clock = ManualClock()
    async with opened(clock=clock) as hub:
        alice = await join(hub, "alice")
        await join(hub, "bob")
        expected = [{"name": "max_silence", "seconds": 60, "on_violation": "auto_close"}]
        session = await open_session(alice, "bob", knobs={"expectations": expected})
        for _ in range(3):
            clock.advance(50)
            await alice.send(session)
        assert (await state_of(hub, session))[0] == "active"
        clock.advance(60)
        assert await state_of(hub, session) == ("closed", "expectation:max_silence")


async def test_closed_sessions_leave_memory_and_stay_readable(url: str) -> None:
    async with opened(url) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = ""
        for _ in range(20):
            session = await open_session(alice, "bob")
            await alice.send(session, "x")
            await alice.ask_own("close", session_id=session)
            for link in (alice, bob):
                while True:
                    frame = await link.get()
                    link.ack(frame)
                    if frame.envelope.event_type == EV_SESSION_CLOSED:
                        break
        async with asyncio.timeout(60):  # until the hub has read the last acknowledgement
            while hub.table.live:
                await asyncio.sleep(0)
        with pytest.raises(ProtocolError, match="is closed"):
            await alice.send(session)
        assert not await alice.ask("can_send", session_id=session, agent_id=bob.agent_id)
        await alice.ask_own("close", session_id=session)
        await hub.table.try_to_load(session)
        assert hub.table.live == {}, "nor does one stay that is read again"
        assert len((await bob.ask_own("read_log", session_id=session))["envelopes"]) == 5
        assert len(await hub.queries.sessions(bob.agent_id, "", 99)) == 20
        assert len(hub.agents.get("alice").opened) == 0


async def test_an_invitation_is_answered_once() -> None:
    async with opened() as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        with pytest.raises(ProtocolError, match=r"no invitation of .* waits for an answer"):
            await bob.send(session, event_type=EV_SESSION_INVITE_ACK)
