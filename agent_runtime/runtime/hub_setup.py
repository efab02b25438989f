"""Join the hub of the host, if the settings say so. Without `AGENT_HUB` nothing of it is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..loop import ChatService, LoopServices, WorkStore
from ..ports import HubAccess, SkillIndex
from ..settings import Settings
from .secrets import mesh_token

if TYPE_CHECKING:
    from agent_common.protocol.hub import Passport, Resume

    from ..hub import HubMember


class HubSetup:
    """This agent's place on the hub. Make it first, because tools use it; call `start` after the recovery."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.access: HubAccess | None = None
        """The hub as tools use it."""
        self.work_stores: tuple[WorkStore, ...] = ()
        self._member: HubMember | None = None
        if not settings.hub:
            return
        from agent_common.hub_client import WebSocketLink
        from agent_common.net import public_tls

        from ..hub import HUB_WORK, HubActions, HubMember, Origins

        url = f"ws{settings.mesh_url.removeprefix('http')}/hub"
        tls = public_tls() if url.startswith("wss") else None
        self._origins = Origins()
        self._member = HubMember(WebSocketLink(url, token=mesh_token(settings), tls=tls, direct=True))
        self.access = HubActions(self._member, self._origins)
        self.work_stores = (HUB_WORK,)

    def start(self, services: LoopServices, chats: ChatService, skills: SkillIndex) -> None:
        """Register, and answer what comes."""
        if self._member is None:
            return
        from ..hub import HubTurns, hub_card

        settings = self._settings

        def card() -> tuple[Passport, Resume]:
            return hub_card(settings.id, settings.role, settings.model, skills.list_packages())

        self._member.start(card, HubTurns(services, chats, self._origins).handle)

    async def close(self) -> None:
        if self._member is not None:
            await self._member.close()
