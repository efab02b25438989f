"""The subscriptions of all agents. An agent asks for its deliveries, and its question waits until there is one."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field

from sqlalchemy import Connection

from agent_common.clock import Clock
from agent_common.protocol import (
    Receive,
    SubscribedSession,
    Subscription,
    SubscriptionList,
    TopicDeadLetter,
    TopicDeadLetters,
    TopicDeliveries,
    TopicDelivery,
)

from ..access import TeamMember
from ..database import BatchWriter, HostDatabase
from .deliveries import look, make_deliveries, note_receipt
from .rows import (
    NewSubscription,
    SubscriptionQuery,
    end_subscription,
    find_subscription,
    forget_agent,
    list_dead_letters,
    list_subscriptions,
    subscribe,
    subscribed_sessions,
)

LOOK_SECONDS = 5.0
"""Longest time between two looks at the database, for what another host has stored and what is due by now."""
LEAST_SECONDS = 0.1
"""Shortest time between two looks, however much is published."""


@dataclass(slots=True)
class _Question:
    """A question for deliveries that waits."""

    team: str
    topics: frozenset[str] = frozenset()
    subscribed: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)
    over: bool = False


class Subscriptions:
    """Subscribes sessions of agents to topics, and hands over what is published to them."""

    def __init__(self, database: HostDatabase, writer: BatchWriter, clock: Clock) -> None:
        self._database = database
        self._writer = writer
        self._clock = clock
        self._questions: dict[str, _Question] = {}
        """By agent. A newer question of an agent ends the one before."""
        self._closed = False

    def end_waits(self) -> None:
        """Answer all questions that wait, because the host stops."""
        self._closed = True
        for question in self._questions.values():
            question.news.set()

    def announce(self, team: str, topic: str) -> None:
        """Tell agents that a message of the topic is on disk."""
        for question in self._questions.values():
            if question.team == team and topic in question.topics:
                question.news.set()

    async def subscribe(self, member: TeamMember, session: str, topic: str) -> tuple[Subscription, bool]:
        """Subscribe a session of the agent. Returns the subscription, and whether it is new. Raises TooMany."""
        chosen = f"sub_{secrets.token_hex(16)}"
        new = NewSubscription(chosen, member.name, member.team, session, topic, self._clock.now_ms())
        created = await asyncio.shield(self._writer.submit(lambda connection: subscribe(connection, new)))
        if (question := self._questions.get(member.name)) is not None:
            question.over = question.over or question.team != member.team
            question.news.set()
        found = await self._database.run(lambda connection: find_subscription(connection, member.name, session, topic))
        return found, created

    async def list(self, query: SubscriptionQuery) -> SubscriptionList:
        found, more = await self._database.run(lambda connection: list_subscriptions(connection, query))
        return SubscriptionList(subscriptions=found, next=found[-1].id if more else None)

    async def end(self, subscription_id: str, agent: str | None) -> None:
        """End a subscription, of that agent or of any. Raises NotFound."""
        await asyncio.shield(
            self._writer.submit(lambda connection: end_subscription(connection, subscription_id, agent))
        )

    async def forget(self, agent: str) -> None:
        """End all subscriptions of an agent that is gone. Idempotent."""
        await asyncio.shield(self._writer.submit(lambda connection: forget_agent(connection, agent)))

    async def dead_letters(self, team: str | None, after: int, limit: int) -> TopicDeadLetters:
        """Return dead letters after a number, the oldest first. None: of all teams."""
        rows, more = await self._database.run(lambda connection: list_dead_letters(connection, team, after, limit))
        page = [TopicDeadLetter.model_validate(row, from_attributes=True) for row in rows]
        return TopicDeadLetters(dead_letters=page, next=page[-1].id if more else None)

    async def receive(self, member: TeamMember, asked: Receive) -> TopicDeliveries:
        """Note what the agent says of earlier deliveries, and return what is due, or becomes due while it waits."""
        if asked.receipts:
            await asyncio.shield(self._writer.submit(lambda connection: self._note(connection, member.name, asked)))
        deliveries = await self._wait(member, asked)
        found = await self._database.run(lambda connection: subscribed_sessions(connection, member.name))
        return TopicDeliveries(
            deliveries=deliveries, subscriptions=[SubscribedSession(id=one, session=session) for one, session in found]
        )

    async def _wait(self, member: TeamMember, asked: Receive) -> list[TopicDelivery]:
        question = _Question(member.team)
        if (earlier := self._questions.get(member.name)) is not None:
            earlier.over = True
            earlier.news.set()
        self._questions[member.name] = question
        until = self._clock.monotonic() + asked.wait_seconds
        try:
            while True:
                question.news.clear()
                if found := await self._look(member, asked, question):
                    return found
                left = until - self._clock.monotonic()
                if left <= 0 or question.over or self._closed or not question.subscribed:
                    return []
                await asyncio.sleep(min(LEAST_SECONDS, left))
                await _wait_for(question.news, min(LOOK_SECONDS, left))
        finally:
            if self._questions.get(member.name) is question:
                del self._questions[member.name]

    async def _look(self, member: TeamMember, asked: Receive, question: _Question) -> list[TopicDelivery]:
        agent = member.name
        team = member.team
        busy = asked.busy_sessions
        now = self._clock.now_ms()
        seen = await self._database.run(lambda connection: look(connection, agent, team, busy, now))
        question.topics = seen.topics
        question.subscribed = seen.subscribed
        if not seen.due or question.over:
            return []
        made = self._writer.submit(lambda connection: make_deliveries(connection, agent, team, busy, now))
        return await asyncio.shield(made)

    def _note(self, connection: Connection, agent: str, asked: Receive) -> None:
        now = self._clock.now_ms()
        for receipt in asked.receipts:
            note_receipt(connection, agent, receipt, now)


async def _wait_for(news: asyncio.Event, seconds: float) -> None:
    """Wait for news, but no longer than that."""
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return
