"""Follow the topics that sessions have subscribed to, if there is a host."""

from __future__ import annotations

import asyncio

from ..loop import ChatService, LoopServices, WorkStore
from ..settings import Settings
from ..topics import TOPIC_WORK, TopicFollower, TopicTurns
from .secrets import bearer_headers


class TopicSetup:
    """Make it first, because tools use `wake`; call `start` after the recovery."""

    work_stores: tuple[WorkStore, ...] = (TOPIC_WORK,)

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.wake = asyncio.Event()
        """Set whenever a session may have subscribed."""
        self._follower: TopicFollower | None = None

    def start(self, services: LoopServices, chats: ChatService) -> None:
        """Ask the host for what is published."""
        from ..mesh import MeshRooms

        if "mesh_url" in self._settings.model_fields_set:
            self._rooms = MeshRooms(self._settings.mesh_url, bearer_headers(self._settings))
            self._follower = TopicFollower(self._rooms, self.wake)
            self._follower.start(TopicTurns(services, chats))

    async def stop(self) -> None:
        """Take nothing any more. Idempotent."""
        if self._follower is not None:
            await self._follower.close()

    async def close(self) -> None:
        if self._follower is not None:
            await self._follower.close()
            await self._rooms.close()
