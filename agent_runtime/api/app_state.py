"""The state that the composition root passes to the routes. It does not import FastAPI, which is slow, so that a
runtime can have this state, and work, before there are routes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from agent_common.protocol import McpServerState

from ..agents import AgentDirectory
from ..context import ContextWindow
from ..loop import (
    AgentPermissionService,
    ChatService,
    EventBus,
    HumanAnswers,
    LoopServices,
    SessionService,
    TaskService,
)
from ..ports import Mesh, SkillIndex, ToolCatalog
from ..settings import Settings
from ..workspace import FileService

if TYPE_CHECKING:
    from ..mesh import ModelCatalog


@dataclass(frozen=True, slots=True)
class Services:
    """The services of the running agent for the routes."""

    settings: Settings
    loop: LoopServices
    chats: ChatService
    human_answers: HumanAnswers
    tasks: TaskService
    agent_permissions: AgentPermissionService
    sessions: SessionService
    files: FileService
    tools: ToolCatalog
    mcp_servers: Callable[[], Sequence[McpServerState]]
    skill_index: SkillIndex
    agents: AgentDirectory
    mesh: Mesh
    models: ModelCatalog
    confinement: str
    confinement_fault: str | None
    window_of: Callable[[str], ContextWindow]
    """Returns the window of a model by its name."""


class ChannelView(Protocol):
    """The channel to the host as the routes see it."""

    @property
    def state(self) -> str: ...

    @property
    def ready(self) -> bool: ...


@dataclass(slots=True)
class AppState:
    """The state that routes use before the agent is ready and during shutdown."""

    settings: Settings
    started_at: float
    events: EventBus
    services: Services | None = None
    draining: bool = False
    channel: ChannelView | None = None
    disk_is_low: Callable[[], bool] = lambda: False

    def not_ready_reasons(self) -> Sequence[str]:
        """Return codes of the reasons why this server should get no work now; empty if it may."""
        if self.draining:
            return ("draining",)
        if self.services is None:
            return ("starting",)
        required = self.settings.mediation_required and self.channel is not None
        broken = required and self.channel is not None and not self.channel.ready
        refused = ("mesh_token",) if self.services.models.token_refused else ()
        return (*(("channel",) if broken else ()), *(("disk",) if self.disk_is_low() else ()), *refused)
