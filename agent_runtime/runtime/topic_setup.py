"""Follow the topics that sessions have subscribed to, if there is a host."""

from __future__ import annotations

import asyncio

from ..loop import ChatService, LoopServices, WorkStore
from ..ports import TeamRequests
from ..topics import TOPIC_WORK, TopicFollower, TopicTurns


class TopicSetup:
    """Make it first, because tools use `wake`; call `start` after the recovery."""

    work_stores: tuple[WorkStore, ...] = (TOPIC_WORK,)

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        """Set whenever a session may have subscribed."""
        self._follower: TopicFollower | None = None

    def start(self, services: LoopServices, chats: ChatService, team: TeamRequests | None) -> None:
        """Ask the host for what is published. `team`: None if there is no host."""
        if team is not None:
            self._follower = TopicFollower(team, self.wake)
            self._follower.start(TopicTurns(services, chats))

    async def close(self) -> None:
        """Take nothing any more. Idempotent."""
        if self._follower is not None:
            await self._follower.close()
