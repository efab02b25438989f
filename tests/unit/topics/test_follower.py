"""The runtime asks its host for messages of topics, also when somebody else has subscribed its sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import cast

import pytest

from agent_common.protocol import DeliveryReceipt, SubscribedSession, TopicDeliveries
from agent_runtime.ports import MeshReply, MeshRequest, MeshStream
from agent_runtime.topics import TopicFollower, TopicTurns

SUBSCRIBED = SubscribedSession(id="sub_1", session="ses_1")


class Host:
    """Has no subscription of the agent when it is asked first, one later, and then no message."""

    def __init__(self) -> None:
        self.asked = 0

    async def request(self, request: MeshRequest) -> MeshReply:
        self.asked += 1
        if self.asked > 2:
            await asyncio.Event().wait()
        found = TopicDeliveries(deliveries=[], subscriptions=[SUBSCRIBED] if self.asked > 1 else [])
        return MeshReply(200, {}, found.model_dump_json().encode())

    def open(self, request: MeshRequest) -> AbstractAsyncContextManager[MeshStream]:
        raise NotImplementedError


class Turns:
    """Notes that there is a subscription."""

    def __init__(self, *faults: Exception) -> None:
        self.subscribed, self.faults = asyncio.Event(), [*faults]

    def busy_sessions(self) -> list[str]:
        return []

    async def ended(self, subscriptions: Sequence[SubscribedSession]) -> list[DeliveryReceipt]:
        if self.faults:
            raise self.faults.pop()
        if SUBSCRIBED in subscriptions:
            self.subscribed.set()
        return []


@pytest.mark.parametrize("faults", [(), (ValueError("nobody has foreseen this"),)], ids=["sound", "failing"])
async def test_the_host_is_asked_again_though_no_session_had_subscribed(faults: tuple[Exception, ...]) -> None:
    turns = Turns(*faults)
    follower = TopicFollower(Host(), asyncio.Event(), look_seconds=0.01)
    follower.start(cast("TopicTurns", turns))
    try:
        async with asyncio.timeout(60):
            await turns.subscribed.wait()
    finally:
        await follower.close()
