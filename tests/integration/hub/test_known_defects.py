"""What other hubs are known to get wrong, a test for each defect. `ELSEWHERE` names the tests that stand beside their
subjects."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from agent_client.hub import (
    AgentClient,
    Envelope,
    HubClient,
    Inbox,
    InboxFull,
    LocalLink,
    Passport,
    Rule,
    Session,
    default_handler,
)
from agent_host.database import open_database
from agent_host.hub import Hub
from agent_host.hub.store import CursorRow, MemoryStore, SqlStore, StoredSession, Submission
from agent_testing import ManualClock

from .agents import is_text
from .conftest import Join

ROOT = Path(__file__).parents[3]
ELSEWHERE = {
    "a turn that asks another agent blocks the loop that has to bring the answer": (
        "integration/hub/test_clients.py::test_a_turn_may_ask_another_agent_and_wait_for_it"
    ),
    "who acknowledges everything and says nothing has a full inbox for ever": (
        "unit/host/hub/test_delivery.py"
        "::test_envelopes_come_in_order_and_a_consumer_that_only_acknowledges_is_never_locked_out"
    ),
    "an opening whose creator and guest share a link always times out": (
        "integration/host/test_hub_link.py::test_a_request_that_waits_holds_up_no_other"
    ),
    "a log of more than a frame ends the link of its reader": (
        "integration/host/test_hub_link.py::test_a_log_longer_than_a_frame_is_read_in_pages"
    ),
    "a full inbox is any error over a link": "integration/host/test_hub_client.py::test_errors_keep_their_type",
    "one key is stored twice": "unit/host/hub/test_posting.py::test_a_key_is_stored_once_and_gives_the_first_id",
    "a rule's session types bar nothing": "unit/host/hub/test_sessions.py::test_rules_of_opening",
    "who comes back within the process gets nothing that it missed": (
        "unit/host/hub/test_delivery.py::test_an_agent_that_was_away_gets_what_it_missed_and_the_end"
    ),
    "what a handler fails at never comes again": (
        "integration/hub/test_clients.py::test_what_a_handler_refuses_comes_again_before_what_follows"
    ),
    "an acknowledgement counts for what came before it too": (
        "unit/host/hub/test_delivery.py::test_acknowledgements_are_a_set"
    ),
    "a refusal is noted and brings nothing again": (
        "unit/host/hub/test_delivery.py::test_a_nacked_envelope_comes_again_and_nothing_overtakes_it"
    ),
    "a turn that said nothing runs again": "integration/hub/test_clients.py::test_a_silent_turn_is_recorded",
    "who was away never hears of the end of a session": (
        "unit/host/hub/test_delivery.py::test_an_agent_that_was_away_gets_what_it_missed_and_the_end"
    ),
    "a rate bars nothing": "unit/host/hub/test_delivery.py::test_a_rate_lets_a_burst_through_and_says_when_to_go_on",
    "every full inbox refuses, whatever its rule says": (
        "unit/host/hub/test_delivery.py::test_a_full_inbox_drops_as_its_rule_says"
    ),
    "a priority changes nothing": (
        "unit/host/hub/test_delivery.py::test_a_window_bounds_what_is_in_flight_and_the_more_urgent_goes_first"
    ),
    "what is too old is delivered": "unit/host/hub/test_delivery.py::test_what_is_too_old_is_not_delivered",
    "nobody notices a turn that is not taken": "unit/host/hub/test_sessions.py::test_a_turn_that_is_late",
    "ids go back with the clock at a restart": (
        "unit/host/hub/test_posting.py::test_ids_rise_when_the_clock_goes_back_and_after_a_restart"
    ),
    "an audience does not hold for the log": (
        "unit/host/hub/test_sessions.py::test_an_audience_holds_for_each_way_of_reading"
    ),
    "any participant closes a session": (
        "unit/host/hub/test_sessions.py::test_only_the_creator_or_an_operator_closes"
    ),
    "within the process anybody reads anything": (
        "unit/host/hub/test_sessions.py::test_what_is_not_yours_is_refused_for_each_operation"
    ),
    "within the process the audience may be of others": "unit/host/hub/test_posting.py::test_what_is_not_stored",
    "a fold that fails leaves the log and the state apart": (
        "unit/host/hub/test_posting.py"
        "::test_what_the_type_of_a_session_fails_at_is_refused_and_counts_nowhere"
    ),
    "a hub that was taken for dead still writes": (
        "unit/host/hub/test_two_hubs.py"
        "::test_an_agent_that_comes_to_another_hub_goes_on_there_and_the_old_hub_cannot_acknowledge"
    ),
    "one process is all there may be": "integration/hub/test_two_processes.py::test_each_hub_killed_in_turn_under_load",
}  # fmt: skip


@pytest.mark.parametrize("defect", ELSEWHERE)
def test_a_defect_has_its_test_elsewhere(defect: str) -> None:
    file, _, name = ELSEWHERE[defect].partition("::")
    assert f"async def {name}(" in (ROOT / "tests" / file).read_text("utf-8")


@asynccontextmanager
async def pair(hub: Hub) -> AsyncGenerator[tuple[AgentClient, AgentClient]]:
    """Alice and bob, who acknowledge what they get; each on a link of its own."""
    clients = [HubClient(LocalLink(hub)) for _ in range(2)]
    alice, bob = [await one.register(None, Passport(name=n)) for one, n in zip(clients, ("alice", "bob"), strict=True)]
    yield alice, bob
    for client in clients:
        await client.close()


async def test_quick_envelopes_do_not_overtake_slow_ones(hub: Hub, join: Join) -> None:
    """The defect: each envelope is handled in a task of its own, so that those which take no time are done first. Here
    each even one takes until all that follow have come."""
    alice, bob = await join("alice"), await join("bob", attach_plugin=False)
    done: list[str] = []
    has_all = asyncio.Event()

    async def handle(envelope: Envelope) -> None:
        if not is_text(envelope):
            await default_handler(bob, envelope)
            return
        if int(envelope.text) % 2 == 0:
            async with asyncio.timeout(60):
                while hub.delivery.inboxes.of(hub.agents.get("bob")).in_flight < 6 - len(done):
                    await asyncio.sleep(0)
        done.append(envelope.text)
        if len(done) == 6:
            has_all.set()

    bob.on_envelope(handle)
    await say(await alice.open(type="conversation", target="bob"), 6)
    async with asyncio.timeout(60):
        await has_all.wait()
    assert done == list("012345")


def kept_of(session: Session) -> int:
    """How many envelopes of a session are in memory, wherever that is."""
    gc.collect()
    found = (one for one in gc.get_objects() if type(one) is Envelope)
    return sum(one.session_id == session.session_id and is_text(one) for one in found)


async def say(session: Session, count: int) -> None:
    for number in range(count):
        await session.send(str(number))


async def all_acknowledged(hub: Hub, name: str) -> None:
    async with asyncio.timeout(60):
        while hub.delivery.inboxes.of(hub.agents.get(name)).pending:
            await asyncio.sleep(0)


@pytest.mark.parametrize("has_handler", [True, False])
async def test_a_client_keeps_nothing_of_what_it_is_done_with(hub: Hub, join: Join, has_handler: bool) -> None:
    """The defect: each delivery is also put into a queue for waits. Nobody empties it while nobody waits, so a client
    that handles everything grows by each envelope; and one that waits keeps what its wait has passed over."""
    alice, bob = await join("alice", attach_plugin=has_handler), await join("bob")
    session = await alice.open(type="conversation", target="bob")
    await say(bob.session(session.session_id), 300)
    if not has_handler:
        await alice.wait_for_session_event(session.session_id, lambda one: one.text == "299", timeout=60)
    await all_acknowledged(hub, "alice")
    hub.table.live[session.session_id].keys.clear()  # so that the hub could tell a repetition
    assert kept_of(session) < 10


async def test_an_inbox_that_was_full_when_its_agent_left_empties_when_it_is_back(hub: Hub, join: Join) -> None:
    """The defect: nothing that an agent does after it has dropped offline counts down what was pending before, so
    whoever was full then stays full."""
    rule, client, held = Rule(inbox=Inbox(max_pending=2)), HubClient(LocalLink(hub)), asyncio.Event()
    alice, bob = await join("alice"), await join("bob", client=client, rule=rule)
    session = await alice.open(type="conversation", target="bob")
    bob.on_envelope(lambda _envelope: _wait_for(held))
    await say(session, 2)
    with pytest.raises(InboxFull):
        await session.send("one too many")
    await client.close()
    await join("bob", rule=rule)
    await all_acknowledged(hub, "bob")
    await say(session, 2)


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()


class CountedCursors(MemoryStore):
    """A store that counts how often each cursor is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: Counter[tuple[str, str]] = Counter()

    def submit(self, submission: Submission) -> None:
        self.written.update((one.agent_id, one.session_id) for one in submission.rows if isinstance(one, CursorRow))
        super().submit(submission)


async def test_an_acknowledgement_writes_its_own_cursor_and_many_write_it_once() -> None:
    """The defect: one record has the cursors of all sessions of an agent, and each acknowledgement writes all of it."""
    store, clock = CountedCursors(), ManualClock()
    hub = await Hub.open_store(store, clock=clock)
    async with pair(hub) as (alice, bob):
        session, *_ = [await alice.open(type="conversation", target="bob") for _ in range(20)]
        inbox = hub.delivery.inboxes.of(hub.agents.get("bob"))
        async with asyncio.timeout(60):
            while any(cursor.in_flight for cursor in inbox.cursors.values()):
                await asyncio.sleep(0)
        clock.advance(1)
        store.written.clear()
        await say(session, 100)
        await all_acknowledged(hub, "bob")
        clock.advance(1)
        of_bob = {name: count for (agent_id, name), count in store.written.items() if agent_id == bob.agent_id}
        assert of_bob == {session.session_id: 1}
    await hub.close()


class CountedReads(SqlStore):
    """A store that counts the sessions that are read from it."""

    sessions_read = 0

    async def session(self, session_id: str) -> StoredSession | None:
        self.sessions_read += 1
        return await super().session(session_id)


async def test_a_restart_reads_nothing_of_sessions_that_are_over(tmp_path: Path) -> None:
    """The defect: a hub that starts reads the logs of all sessions that there have ever been and folds them again."""
    url = f"sqlite:///{tmp_path / 'hub.db'}"
    hub = await Hub.open(url)
    async with pair(hub) as (alice, _):
        for _ in range(5):
            session = await alice.open(type="conversation", target="bob")
            await say(session, 10)
            await session.close()
        async with asyncio.timeout(60):
            while hub.table.live:
                await asyncio.sleep(0.01)
    await hub.close()
    with closing(open_database(url)) as database:
        store = CountedReads(database)
        hub = await Hub.open_store(store)
        async with pair(hub) as (alice, _):
            assert len(await alice.sessions()) == 5
            async with asyncio.timeout(60):
                while hub.owned_tasks._tasks:  # what it reads for the agents
                    await asyncio.sleep(0.01)
            assert (store.envelopes_read, store.sessions_read) == (0, 0)
        await hub.close()
