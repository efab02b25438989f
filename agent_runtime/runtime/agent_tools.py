"""What an agent can do: the product's tools, its skills and packages, and the operator's MCP servers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent_common.home_folder import home_folder

from ..agents import AgentDirectory
from ..connectors import ConnectorManager
from ..ports import Clock, Events, HubAccess, Mesh, SideEffectGate, TeamRequests
from ..sandbox import Confinement, SandboxLimits
from ..settings import Settings
from ..skills import (
    Environments,
    MeshTools,
    PackageIndex,
    PluginVersions,
    SkillLibrary,
    SkillManager,
    Staging,
    WorkerSetup,
    authoring_tools,
)
from ..store import Database
from ..tools import QuotaCheck, Tool, ToolGate, ToolRegistry, builtin_tools, choose_watchdog
from ..workspace import Home
from .mcp_servers import connector_deps, named_servers, sandbox_limits
from .secrets import bearer_headers, mesh_token, skill_grants, skill_index
from .skill_mesh import SkillMesh
from .storage_services import RegisterClosable, StorageServices

if TYPE_CHECKING:
    from agent_common.net import Upstream

SKILL_PROCESSES = 64
"""Processes and threads that a skill may have."""


@dataclass(frozen=True, slots=True)
class AgentTools:
    """What the turns of one agent share."""

    tools: ToolRegistry
    skill_library: SkillLibrary
    connectors: ConnectorManager


@dataclass(frozen=True, slots=True)
class AgentToolsBuilder:
    """Where it is put together."""

    settings: Settings
    home: Home
    database: Database
    clock: Clock
    events: Events
    confinement: Confinement
    register_closable: RegisterClosable
    storage: StorageServices
    agents: AgentDirectory
    side_effects: SideEffectGate
    hub: HubAccess | None
    team: TeamRequests | None
    """None: there is no host."""
    on_subscribe: Callable[[], None]
    """Called whenever a session may have subscribed to a topic."""

    async def build(self, mesh: Mesh) -> AgentTools:
        """Raises StartError."""
        settings = self.settings
        library = self._library()
        connectors = self._connectors()
        await asyncio.to_thread(library.packages)  # so that no session waits for files to be read for the first time
        own = self._own_tools(library)
        watchdog = await asyncio.to_thread(choose_watchdog, settings.watchdog)
        gate = ToolGate(timeout=settings.tool_timeout, watchdog=watchdog, authors=self.storage.authors)
        skills = self._skills(mesh, SkillMesh(gate, own, self.side_effects))
        await skills.start()
        tools = ToolRegistry((*own, *authoring_tools(skills)), connectors, skills, gate=gate)
        return AgentTools(tools, library, connectors)

    def _own_tools(self, library: SkillLibrary) -> tuple[Tool, ...]:
        from agent_common.net import WebClient

        from ..mesh import MeshSearch

        settings = self.settings
        return builtin_tools(
            self.confinement,
            timeout=settings.tool_timeout,
            limits=self._sandbox_limits,
            egress=WebClient.via_proxy(settings.egress_url, mesh_token(settings)),
            search=self.register_closable(MeshSearch(settings.mesh_url, bearer_headers(settings))),
            team=self.team,
            on_subscribe=self.on_subscribe,
            events=self.events,
            hub=self.hub,
            callable_agents=self.agents.callable_agents(),
            agent_timeout=settings.subagent_timeout,
            skills=library,
            learnings=self.storage.learnings,
            memory=self.storage.memory,
            locks=self.storage.locks,
            backups=self.storage.backups,
        )

    def _skills(self, mesh: Mesh, mesh_tools: MeshTools) -> SkillManager:
        settings = self.settings
        workspace = self.home.workspace
        limits = replace(self._sandbox_limits, memory=settings.skill_memory_mb * 2**20, processes=SKILL_PROCESSES)
        upstream = self._upstream if settings.egress_url else None
        return self.register_closable(
            SkillManager(
                settings.skills_path,
                WorkerSetup(
                    self.confinement,
                    mesh,
                    workspace,
                    limits,
                    upstream=upstream,
                    mesh_tools=mesh_tools,
                    authors=self.storage.authors,
                ),
                Staging(self.home.staged),
                self._environments(),
                skill_grants(settings),
                PluginVersions(self.database, self.clock, workspace),
                self.events,
            )
        )

    @property
    def _upstream(self) -> Upstream | None:
        from agent_common.net import WebClient

        return WebClient.via_proxy(self.settings.egress_url, mesh_token(self.settings)).upstream

    def _environments(self) -> Environments:
        settings = self.settings
        index = PackageIndex(skill_index(settings), settings.egress_url, mesh_token(settings))
        return Environments(self.home.skill_environments, self.confinement, settings.skill_dependencies, index)

    def _library(self) -> SkillLibrary:
        space = QuotaCheck(self.confinement, self._sandbox_limits)
        return SkillLibrary(
            self.home.workspace,
            home_folder(),
            self.settings.skill_paths or (),
            require_space=space.require_space,
            authors=self.storage.authors,
        )

    def _connectors(self) -> ConnectorManager:
        """The MCP servers that the operator has named. Raises StartError."""
        deps = connector_deps(self.settings, self.home, self.confinement)
        return self.register_closable(ConnectorManager(named_servers(self.settings, self.home), deps))

    @property
    def _sandbox_limits(self) -> SandboxLimits:
        return sandbox_limits(self.settings)
