"""Wire one agent's services, start them in order, and shut them down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent_common.clock import SystemClock
from agent_common.telemetry import logger, redact_lines

from ..agents import AgentDirectory, ProjectRules
from ..api import AppState, Services, create_app
from ..learnings import DailyLogWriter
from ..loop import (
    Admission,
    AgentPermissionService,
    AgentRules,
    AuthorityResolver,
    ChatService,
    CompactionService,
    Counters,
    EventBus,
    HumanAnswers,
    LiveSessions,
    LoopServices,
    MemoryNotes,
    MessageSizeCheck,
    ModelWindows,
    PriceCheck,
    Recovery,
    SessionService,
    Subagents,
    SummarizerModels,
    TaskService,
    TurnFinalizer,
    TurnRunner,
    Warnings,
)
from ..mediation import ChannelGate, ConstraintService, ServeConnection
from ..memory import MemoryService
from ..ports import HubAccess, NoteProvider, SideEffectGate
from ..sandbox import Confinement, choose_confinement, raise_priority
from ..sessions import Ids
from ..settings import Settings
from ..store import BackupScheduler, Database
from ..workspace import Home
from .agent_tools import AgentTools, AgentToolsBuilder
from .hub_setup import HubSetup
from .mediation_setup import MediationSetup, task_reporter
from .migrations import MIGRATIONS
from .operator_files import require_out_of_reach
from .peer_card import card_reader
from .retention import RetentionLimits, SessionData, SessionRetention
from .secrets import bearer_headers, redactor
from .session_prompt import SessionPromptBuilder
from .storage_services import Closable, StorageServices, T
from .topic_setup import TopicSetup
from .turn_limits import TurnLimitPolicy

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ..mesh import MeshClient, MeshTeamRequests, ModelCatalog, ModelClient

log = logger(__name__)


class Runtime:
    """One agent. Call `open`, then `start`; at the end `drain` and `close`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock = SystemClock()
        self.home = Home(settings.data_dir, user_folder=settings.user_folder)
        self.database = Database(self.home.database, MIGRATIONS)
        self.app_state = AppState(
            settings,
            self.clock.monotonic(),
            EventBus(self.clock),
            disk_is_low=lambda: self.database.reserve.is_low,
        )
        self.serve_connection: ServeConnection | None = None
        """Has the HTTP server answer on a connection that was opened for the host; None if there is no server. Set it
        before `start`."""
        self._agent_rules = AgentRules(self.database, settings.id)
        self._admission: Admission | None = None
        self._compaction: CompactionService | None = None
        self._mediation: MediationSetup | None = None
        self._topics = TopicSetup()
        self._team: MeshTeamRequests | None = None
        self._closables: list[Closable] = [self._topics]
        """Closed by `close`, the one opened last first."""

    def create_http_app(self) -> FastAPI:
        """Return the HTTP application. It answers before and after `start`; loading it is slow."""
        return create_app(self.app_state, self.clock)

    def open(self) -> None:
        """Take the data directory. Raises StartError if that is not possible."""
        require_out_of_reach(self.settings, self.home)
        self.home.prepare()
        self.database.open()

    async def start(self) -> None:
        """Build all services, settle what earlier processes left, then accept work. Raises StartError."""
        settings = self.settings
        clock = self.clock
        gate = ChannelGate(required=settings.mediation_required)
        constraints = ConstraintService(self.home.data_dir / "constraints", settings.constraints_file)
        catalog, model, mesh = self._open_model_access(gate)
        confinement = await self._confine()
        home = self.home
        own = self._register_closable
        agents = AgentDirectory(home.agents)
        constraints.load()
        await self._agent_rules.load()
        authority = AuthorityResolver(agents, ProjectRules.read(home.data_dir), constraints.layer)
        limits = TurnLimitPolicy(settings, catalog.cards)
        storage = StorageServices.start(settings, home, self.database, clock, confinement, own, mesh)
        hub = own(HubSetup(settings))
        agent_tools = await self._agent_tools_builder(confinement, storage, agents, gate, hub.access).build(mesh)
        known = redactor(settings, agent_tools.connectors.secret_values())
        redact_lines(known.redact)
        windows = ModelWindows(limits.window, catalog.cards)
        services = self._build_loop_services(
            model=model,
            price_check=PriceCheck(catalog),
            authority=authority,
            agent_tools=agent_tools,
            storage=storage,
            windows=windows,
            confinement=confinement,
            gate=gate,
        )
        summarizers = SummarizerModels(agents, windows, settings.compaction.model)
        compaction = self._compaction = CompactionService(services, summarizers, settings.compaction, storage.memory)
        notes = (constraints, Warnings(windows.usable, agent_tools.tools.skills), MemoryNotes(storage.memory))
        self._start_turns(services, compaction, agents, limits, notes, storage.daily_log)
        reporter = task_reporter(settings, self.database)
        chats = ChatService(services, limits.chat)
        tasks = TaskService(services, limits.task, reporter)
        mediation = self._mediation = MediationSetup(
            settings,
            gate,
            constraints,
            services,
            chats,
            tasks,
            reporter,
            confined=confinement.name != "off",
            serve_api=self.serve_connection,
        )
        self._closables.insert(0, mediation)  # closed last: until then it can report what the others bring to an end
        await Recovery(
            services, tasks, limits.chat(), (mediation.worker, *hub.work_stores, *self._topics.work_stores)
        ).run()
        self._start_maintenance(catalog, services.live_sessions, storage.memory)
        self._start_posting_card(agents, agent_tools)
        self.app_state.services = Services(
            settings=settings,
            loop=services,
            chats=chats,
            human_answers=HumanAnswers(services),
            tasks=tasks,
            agent_permissions=AgentPermissionService(services),
            sessions=SessionService(services, compaction, known, settings.copies_mb * 2**20),
            files=storage.files,
            tools=agent_tools.tools,
            mcp_servers=agent_tools.connectors.servers,
            skill_index=agent_tools.skill_library,
            agents=agents,
            mesh=mesh,
            models=catalog,
            confinement=confinement.name,
            confinement_fault=confinement.reason or None,
            window_of=windows.window,
        )
        self.app_state.channel = mediation.channel
        await mediation.start()
        hub.start(services, chats, agent_tools.skill_library)
        self._topics.start(services, chats, self._team)

    async def run_file(self, source: Path, target: Path) -> bool:
        """Run one work request from a file, once started. Return whether it was completed. Raises StartError."""
        assert self._mediation is not None  # noqa: S101
        return await self._mediation.run_file(source, target)

    async def drain(self) -> None:
        """Stop accepting work and give running turns their grace. The next process settles what is left."""
        self.app_state.draining = True
        if self._compaction is not None:
            self._compaction.drain(self.settings.drain_grace)
        if self._mediation is not None:
            self._mediation.stop_accepting()
        await self._topics.close()
        if self._admission is not None:
            await self._admission.drain(self.settings.drain_grace)
        self.app_state.events.close()

    async def close(self) -> None:
        if self._admission is not None and not self.app_state.draining:  # `start` failed after the recovery
            await self._admission.drain(0)
        while self._closables:
            thing = self._closables.pop()
            try:
                await thing.close()
            except Exception:  # the others, and the database, must be closed all the same
                log.exception("closing failed", service=type(thing).__name__)
        self.database.close()

    def _agent_tools_builder(
        self,
        confinement: Confinement,
        storage: StorageServices,
        agents: AgentDirectory,
        gate: SideEffectGate,
        hub: HubAccess | None,
    ) -> AgentToolsBuilder:
        return AgentToolsBuilder(
            settings=self.settings,
            home=self.home,
            database=self.database,
            clock=self.clock,
            events=self.app_state.events,
            confinement=confinement,
            register_closable=self._register_closable,
            storage=storage,
            agents=agents,
            side_effects=gate,
            hub=hub,
            team=self._open_team_requests(),
            on_subscribe=self._topics.wake.set,
        )

    def _build_loop_services(
        self,
        *,
        model: ModelClient,
        price_check: PriceCheck,
        authority: AuthorityResolver,
        agent_tools: AgentTools,
        storage: StorageServices,
        windows: ModelWindows,
        confinement: Confinement,
        gate: ChannelGate,
    ) -> LoopServices:
        settings = self.settings
        home = self.home
        clock = self.clock
        prompts = SessionPromptBuilder(
            settings, home, clock, authority, agent_tools, storage.learnings, storage.authors, confinement.name
        )
        ids = Ids(clock)
        events = self.app_state.events
        admission = self._admission = Admission(
            self.database,
            events,
            slots=settings.max_concurrent_turns,
            queue_limit=settings.max_queue,
            answer_seconds=settings.answer_timeout,
        )
        return LoopServices(
            database=self.database,
            clock=clock,
            ids=ids,
            home=home,
            events=events,
            counters=Counters(),
            model=model,
            tool_catalog=agent_tools.tools,
            authority_resolver=authority,
            live_sessions=LiveSessions(self.database, ids, authority.agents, settings.model, prompts),
            agent_rules=self._agent_rules,
            admission=admission,
            learnings=storage.learnings,
            side_effect_gate=gate,
            parallel_tools=settings.max_parallel_tools,
            price_check=price_check,
            require_fit=MessageSizeCheck(windows, agent_tools.tools, authority).require,
            skills_folder=settings.skills_path.resolve(),
        )

    def _start_turns(
        self,
        services: LoopServices,
        compaction: CompactionService,
        agents: AgentDirectory,
        limits: TurnLimitPolicy,
        notes: Sequence[NoteProvider],
        daily_log: DailyLogWriter,
    ) -> None:
        """Let admitted turns run."""
        most = self.settings.max_subagents
        subagents = Subagents(services, compaction, agents, max_concurrent=most, limits=limits.subagent())
        finalizer = TurnFinalizer(self.database, self.clock)
        self._register_closable(subagents)
        self._register_closable(finalizer)
        runner = TurnRunner(services, finalizer, compaction, subagents, notes, daily_log)
        services.admission.start(runner.run, finalizer.finalize_cancelled)

    def _open_model_access(self, gate: SideEffectGate) -> tuple[ModelCatalog, ModelClient, MeshClient]:
        """Return the catalog of models, the loop's client and the skills' client."""
        from ..mesh import MeshClient, ModelCatalog, ModelClient, RetryPolicy

        settings = self.settings
        headers = bearer_headers(self.settings)
        complete = settings.llm_base_url is None
        catalog = self._register_closable(ModelCatalog(settings.model_url, headers, self.clock, complete=complete))
        retries = RetryPolicy(settings.model_attempts, settings.model_idle_timeout)
        client = ModelClient(settings.model_url, headers, catalog, retries, names_origin=complete)
        model = self._register_closable(client)
        mesh = self._register_closable(MeshClient(settings.model_url, headers, settings.model, catalog, gate))
        return catalog, model, mesh

    async def _confine(self) -> Confinement:
        """Choose how commands are confined, and give the home to the user they run as. Raises StartError."""
        raise_priority()
        confinement = await choose_confinement(self.settings.confinement, self.home.data_dir)
        self.home = self.home.with_owner(confinement.uid, by_path=confinement.by_path)
        return confinement

    def _start_maintenance(self, catalog: ModelCatalog, live_sessions: LiveSessions, memory: MemoryService) -> None:
        """Start checking the mesh, making backups, and deleting old data."""
        from ..mesh import MeshCheck

        self._register_closable(MeshCheck(catalog, self.settings.model_url, self.settings.model)).start()
        self._register_closable(BackupScheduler(self.database, self.settings.backup_minutes)).start()
        elsewhere = SessionData(live_sessions, self.home, memory.forget_messages)
        keep = RetentionLimits(self.settings.retention_days, self.settings.retention_rows)
        self._register_closable(SessionRetention(self.database, self.clock, keep, elsewhere)).start()

    def _start_posting_card(self, agents: AgentDirectory, agent_tools: AgentTools) -> None:
        """Tell the host what the agent can do, if there is a host."""
        from ..mesh import CardPoster

        if self._team is not None:
            read_card = card_reader(self.settings, agents, agent_tools.skill_library, agent_tools.tools)
            self._register_closable(CardPoster(self._team, read_card)).start()

    def _open_team_requests(self) -> MeshTeamRequests | None:
        """Return the client of what the host keeps for a team, once and for all; None if there is no host."""
        from ..mesh import MeshTeamRequests

        if self.settings.has_mesh:
            self._team = MeshTeamRequests(self.settings.mesh_url, bearer_headers(self.settings))
            self._closables.insert(0, self._team)  # closed after those that use it
        return self._team

    def _register_closable(self, closable: T) -> T:
        self._closables.append(closable)
        return closable
