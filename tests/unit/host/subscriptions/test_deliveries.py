"""Deliveries themselves: order, leases, what comes again, what is dropped and buried, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine

from agent_common.protocol import MAX_BACKLOG, MAX_DELIVERED, MAX_SUBSCRIPTIONS, DeliveryReceipt, TopicDelivery
from agent_host.database import open_database
from agent_host.errors import NotFound, TooMany
from agent_host.subscriptions.deliveries import (
    BURST,
    BUSY_MS,
    INTERVAL_MS,
    LEASE_MS,
    MAX_ATTEMPTS,
    look,
    make_deliveries,
    note_receipt,
)
from agent_host.subscriptions.rows import (
    NewSubscription,
    SubscriptionQuery,
    end_subscription,
    forget_agent,
    list_dead_letters,
    list_subscriptions,
    subscribe,
)
from agent_host.topics.messages import LIMITS, NewMessage, TopicLimits, delete_topic, publish
from tests.unit.host.postgresql import new_database, postgresql

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    with postgresql() as url:
        yield url


@dataclass
class Mesh:
    """A database, and the time of its agents."""

    connection: Connection
    now: int = 1_800_000_000_000

    def subscribe(self, agent: str, session: str, topic: str, team: str = "red") -> str:
        chosen = f"{agent}-{session}-{topic}"
        subscribe(self.connection, NewSubscription(chosen, agent, team, session, topic, self.now))
        return chosen

    def publish(
        self, topic: str, *data: object, by: str = "ann", team: str = "red", limits: TopicLimits = LIMITS
    ) -> None:
        for one in data:
            self.now += 1
            text = json.dumps(one)
            publish(self.connection, NewMessage(team, topic, f"{self.now}", text, by, "{}", self.now), limits)

    def receive(self, agent: str, *, busy: Sequence[str] = (), team: str = "red") -> list[TopicDelivery]:
        made = make_deliveries(self.connection, agent, team, busy, self.now)
        assert not made or look(self.connection, agent, team, (), self.now).topics
        return made

    def one(self, agent: str) -> TopicDelivery:
        assert look(self.connection, agent, "red", (), self.now).due
        (made,) = self.receive(agent)
        return made

    def answer(self, agent: str, delivery: TopicDelivery, status: str = "taken", reason: str = "") -> None:
        for one in delivery.messages:
            receipt = {"subscription_id": one.subscription_id, "seq": one.seq, "status": status, "reason": reason}
            note_receipt(self.connection, agent, DeliveryReceipt.model_validate(receipt), self.now)

    def pass_lease(self) -> None:
        self.now += LEASE_MS + HOUR_MS


def seen(delivery: TopicDelivery) -> list[object]:
    return [json.loads(one.data) for one in delivery.messages]


@pytest.fixture
def mesh(tmp_path: Path) -> Generator[Mesh]:
    with opened(f"sqlite:///{tmp_path / 'mesh.db'}") as mesh:
        yield mesh


@contextmanager
def opened(url: str) -> Generator[Mesh]:
    open_database(url).close()
    engine = create_engine(url)
    with engine.begin() as connection:
        yield Mesh(connection)
    engine.dispose()


def test_what_others_publish_comes_once_and_in_order(mesh: Mesh) -> None:
    mesh.publish("orders", "before")
    mesh.subscribe("bob", "s1", "orders")
    mesh.subscribe("bob", "s1", "news")
    assert mesh.receive("bob") == []
    mesh.publish("orders", 1)
    mesh.publish("news", 2)
    mesh.publish("orders", 3, "own")
    mesh.publish("orders", "mine", by="bob")
    mesh.publish("orders", "blue's", team="blue")
    delivery = mesh.one("bob")
    assert (delivery.session, seen(delivery)) == ("s1", [1, 2, 3, "own"])
    assert [(one.topic, one.seq, one.by) for one in delivery.messages][:2] == [("orders", 2, "ann"), ("news", 1, "ann")]
    mesh.publish("orders", 4)
    assert mesh.receive("bob") == [], "one delivery of a session at a time"
    mesh.answer("bob", delivery)
    mesh.answer("bob", delivery)
    assert seen(mesh.one("bob")) == [4]


def test_own_messages_wake_nobody(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", 1, 2, by="bob")
    assert not look(mesh.connection, "bob", "red", (), mesh.now).due
    mesh.publish("orders", 3)
    mesh.publish("orders", 4, by="bob")
    delivery = mesh.one("bob")
    assert (seen(delivery), delivery.dropped) == ([3], {})


def test_a_storm_comes_in_bounded_pieces_and_at_a_pace(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", *range(MAX_DELIVERED * (BURST + 3)))
    got: list[object] = []
    for _ in range(BURST):
        delivery = mesh.one("bob")
        assert len(delivery.messages) == MAX_DELIVERED
        got += seen(delivery)
        mesh.answer("bob", delivery)
    assert not look(mesh.connection, "bob", "red", (), mesh.now).due
    assert mesh.receive("bob") == []
    mesh.subscribe("bob", "s1", "other")
    mesh.publish("other", "new")
    assert mesh.receive("bob") == [], "a new subscription of the session has its pace"
    mesh.now += INTERVAL_MS
    got += [one for one in seen(mesh.one("bob")) if one != "new"]
    assert got == [*range(len(got))]
    mesh.subscribe("bob", "s2", "orders")
    mesh.publish("orders", "for both")
    assert [one.session for one in mesh.receive("bob")] == ["s2"], "another session has its own"


@pytest.mark.parametrize(
    "status", ["under way", *(pytest.param(one, marks=pytest.mark.slow) for one in ("busy", "refused", "taken"))]
)
def test_deliveries_go_on_when_the_clock_goes_back(mesh: Mesh, status: str) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", *range(MAX_DELIVERED * (BURST + 2)))
    for _ in range(BURST - 1):
        mesh.answer("bob", mesh.one("bob"))
    last = mesh.one("bob")
    if status != "under way":
        mesh.answer("bob", last, status)
    assert mesh.receive("bob") == []
    mesh.now -= 24 * HOUR_MS
    mesh.answer("bob", mesh.one("bob"))
    mesh.publish("orders", "new")
    assert mesh.one("bob"), "its pace begins anew"


def test_large_messages_come_alone(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", "x" * 200_000, "y", "z" * 60_000, "u" * 60_000)
    sizes: list[int] = []
    for _ in range(3):
        delivery = mesh.one("bob")
        sizes.append(len(delivery.messages))
        mesh.answer("bob", delivery)
    assert sizes == [1, 2, 1]


def test_what_is_not_taken_comes_again_in_smaller_pieces_and_is_buried(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", *range(60))
    counts: list[int] = []
    last = mesh.now
    pauses: list[int] = []
    for _ in range(MAX_ATTEMPTS):
        counts.append(len(mesh.one("bob").messages))
        assert mesh.receive("bob") == []
        mesh.now += LEASE_MS
        assert mesh.receive("bob") == [], "it comes later each time"
        while not look(mesh.connection, "bob", "red", (), mesh.now).due:
            mesh.now += 500
        pauses.append(mesh.now - last - LEASE_MS)
        last = mesh.now
    assert counts == [50, 12, 3, 1, 1]
    assert pauses == sorted(set(pauses))
    delivery = mesh.one("bob")
    assert seen(delivery) == [*range(1, 51)], "only the first message is buried"
    (letter,), more = list_dead_letters(mesh.connection, None, 0, 1)
    assert not more
    assert (letter.seq, letter.attempts, letter.agent, letter.session) == (1, MAX_ATTEMPTS, "bob", "s1")
    assert letter.reason == "the agent has not acknowledged it"
    assert list_dead_letters(mesh.connection, "blue", 0, 10) == ([], False)
    mesh.answer("bob", delivery)
    assert seen(mesh.one("bob")) == [*range(51, 60)]


def test_a_refused_message_is_buried_with_its_reason(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", "bad", "good")
    for _ in range(MAX_ATTEMPTS):
        mesh.answer("bob", mesh.one("bob"), "refused", "it is too large\0")
        mesh.now += HOUR_MS
    (letter,), _ = list_dead_letters(mesh.connection, "red", 0, 10)
    assert (letter.reason, letter.attempts) == ("it is too large\ufffd", MAX_ATTEMPTS)
    assert seen(mesh.one("bob")) == ["good"]


def test_what_comes_again_comes_alone(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "bad")
    mesh.subscribe("bob", "s1", "good")
    mesh.publish("bad", 1)
    mesh.publish("good", 2)
    assert seen(mesh.one("bob")) == [1, 2]
    mesh.pass_lease()
    first, second = mesh.one("bob"), None
    mesh.answer("bob", first)
    second = mesh.one("bob")
    assert sorted([*seen(first), *seen(second)]) == [1, 2]  # type: ignore[type-var]


def test_a_busy_agent_loses_no_attempt_and_none_of_its_pace(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.subscribe("bob", "s1", "news")
    for number in range(BURST - 1):
        mesh.publish("orders", number)
        mesh.answer("bob", mesh.one("bob"))
    mesh.publish("orders", "one")
    mesh.publish("news", "two")
    for _ in range(2 * BURST):
        mesh.answer("bob", mesh.one("bob"), "busy")
        assert mesh.receive("bob") == []
        mesh.now += BUSY_MS
    assert mesh.receive("bob", busy=["s1"]) == []
    for _ in range(1 + 2 * BURST * BUSY_MS // INTERVAL_MS):
        mesh.answer("bob", mesh.one("bob"))
        mesh.publish("orders", "more")
    assert mesh.receive("bob") == [], "what was busy is given back once, and not for each of its topics"
    assert list_dead_letters(mesh.connection, None, 0, 10) == ([], False)


def test_a_late_receipt_counts(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", 1, 2)
    first = mesh.one("bob")
    mesh.pass_lease()
    mesh.one("bob")
    mesh.answer("bob", first)
    mesh.publish("orders", 3)
    assert seen(mesh.one("bob")) == [3]


def test_a_receipt_moves_no_further_than_what_was_delivered(mesh: Mesh) -> None:
    chosen = mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", 1)
    mesh.one("bob")
    mesh.publish("orders", 2)
    far = DeliveryReceipt(subscription_id=chosen, seq=1 << 60, status="taken")
    note_receipt(mesh.connection, "eve", far, mesh.now)
    assert mesh.receive("bob") == [], "another agent's receipt counts for nothing"
    note_receipt(mesh.connection, "bob", far, mesh.now)
    assert seen(mesh.one("bob")) == [2]


def test_of_too_many_the_oldest_are_dropped_and_it_is_said(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", *range(MAX_BACKLOG + 7))
    delivery = mesh.one("bob")
    assert (seen(delivery)[0], delivery.dropped) == (7, {"orders": 7})
    mesh.pass_lease()
    assert mesh.one("bob").dropped == {"orders": 7}, "it is said until it is taken"
    mesh.answer("bob", delivery)
    again = mesh.one("bob")
    assert (seen(again)[0], again.dropped) == (57, {})


def test_what_the_topic_no_longer_keeps_is_dropped(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", *range(5), limits=TopicLimits(messages=3))
    delivery = mesh.one("bob")
    assert (seen(delivery), delivery.dropped) == ([2, 3, 4], {"orders": 2})


def test_how_subscriptions_end(mesh: Mesh) -> None:
    first = mesh.subscribe("bob", "s1", "orders")
    other = mesh.subscribe("bob", "s2", "orders")
    mesh.publish("orders", 1)
    with pytest.raises(NotFound):
        end_subscription(mesh.connection, first, "eve")
    end_subscription(mesh.connection, first, "bob")
    with pytest.raises(NotFound):
        end_subscription(mesh.connection, first, None)
    delivery = mesh.one("bob")
    assert delivery.session == "s2"
    note_receipt(mesh.connection, "bob", DeliveryReceipt(subscription_id=other, status="ended"), mesh.now)
    assert all_of(mesh, "bob") == []
    mesh.subscribe("bob", "s3", "orders")
    mesh.subscribe("bob", "s3", "news")
    delete_topic(mesh.connection, "red", "orders")
    assert all_of(mesh, "bob") == ["news"]
    forget_agent(mesh.connection, "bob")
    assert all_of(mesh, "bob") == []


def test_an_agent_that_has_moved_gets_nothing_of_its_old_team(mesh: Mesh) -> None:
    mesh.subscribe("bob", "s1", "orders")
    mesh.publish("orders", 1)
    assert not look(mesh.connection, "bob", "blue", (), mesh.now).due
    assert mesh.receive("bob", team="blue") == []
    mesh.subscribe("bob", "s1", "orders", team="blue")
    mesh.publish("orders", 2, team="blue")
    assert [seen(one) for one in mesh.receive("bob", team="blue")] == [[2]]
    assert all_of(mesh, "bob") == ["orders"]


def test_an_agent_has_so_many_subscriptions(mesh: Mesh) -> None:
    for number in range(MAX_SUBSCRIPTIONS):
        mesh.subscribe("bob", "s1", f"t{number}")
    mesh.subscribe("bob", "s1", "t0")
    mesh.subscribe("zoe", "s1", "more")
    with pytest.raises(TooMany, match="end one"):
        mesh.subscribe("bob", "s1", "more")
    assert len(all_of(mesh, "bob")) == MAX_SUBSCRIPTIONS


def all_of(mesh: Mesh, agent: str) -> list[str]:
    found, _ = list_subscriptions(mesh.connection, SubscriptionQuery(agent, None, None, None, "", 100))
    return [one.topic for one in found]


@pytest.mark.slow
def test_the_same_on_postgresql(server: str) -> None:
    for number, test in enumerate(
        (
            test_what_others_publish_comes_once_and_in_order,
            test_what_is_not_taken_comes_again_in_smaller_pieces_and_is_buried,
            test_a_refused_message_is_buried_with_its_reason,
            test_large_messages_come_alone,
            test_what_the_topic_no_longer_keeps_is_dropped,
            test_how_subscriptions_end,
        )
    ):
        with opened(new_database(server, f"subscriptions-{number}")) as mesh:
            test(mesh)
