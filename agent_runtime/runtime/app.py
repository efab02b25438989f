"""Reads top to bottom as the life of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent_common.clock import SystemClock
from agent_common.telemetry import logger

from ..agents import AgentDirectory, ProjectRules
from ..api import AppState, Services, create_app
from ..learnings import LearningService
from ..loop import (
    Admission,
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
from ..memory import MemoryService
from ..ports import SideEffectGate, SnapshotGuard
from ..sandbox import Confinement, choose_confinement, raise_priority
from ..sessions import Ids
from ..settings import Settings
from ..store import BackupScheduler, Database
from ..workspace import Home
from .agent_tools import AgentToolsBuilder
from .mediation_setup import MediationSetup
from .migrations import MIGRATIONS
from .retention import RetentionLimits, SessionData, SessionRetention
from .secrets import bearer_headers, secrets
from .session_prompt import SessionPromptBuilder
from .storage_services import Closable, StorageServices, T
from .turn_limits import TurnLimitPolicy

if TYPE_CHECKING:
    from fastapi import FastAPI

    from ..mesh import MeshClient, ModelCatalog, ModelClient

log = logger(__name__)


class Runtime:
    """One agent, behind a port that is open already: `open`, `warm`, and at the end `drain` and `close`."""

    def __init__(self, settings: Settings, snapshots: SnapshotGuard | None = None) -> None:
        self.settings, self.clock, self._snapshot_guard = settings, SystemClock(), snapshots
        self.home = Home(settings.data_dir)
        self.database = Database(self.home.database, MIGRATIONS)
        self.app_state = AppState(
            settings,
            self.clock.monotonic(),
            EventBus(self.clock),
            disk_is_low=lambda: self.database.reserve.is_low,
        )
        self._admission: Admission | None = None
        self._compaction: CompactionService | None = None
        self._mediation: MediationSetup | None = None
        self._closables: list[Closable] = []
        """What `close` must close, last opened first."""

    def create_http_app(self) -> FastAPI:
        """The HTTP face. It may be asked for before the runtime is warm, or after; it is slow to load."""
        return create_app(self.app_state, self.clock)

    def open(self) -> None:
        """Takes the data directory. Raises StartError that says why it cannot."""
        self.home.prepare()
        self.database.open()

    async def start(self) -> None:
        """Loads what is slow to load, takes up what the last life left, then opens the doors. Raises StartError."""
        settings, clock = self.settings, self.clock
        mediation = self._mediation = self._register_closable(MediationSetup(settings, self.home))
        catalog, model, mesh = self._open_model_access(mediation.gate)
        confinement = await self._confine()
        home = self.home
        agents = AgentDirectory(home.agents)
        mediation.load()
        rules = ProjectRules.read(home.data_dir)
        authority = AuthorityResolver(agents, rules, lambda: mediation.constraints.active.layer)
        limits = TurnLimitPolicy(settings, catalog)
        own = self._register_closable
        storage = StorageServices.start(settings, home, self.database, clock, confinement, own, mesh)
        at_most = settings.max_subagents
        subagents = own(Subagents(agents, authority, max_concurrent=at_most, limits=limits.subagent()))
        ids, counters, events = Ids(clock), Counters(), self.app_state.events
        builder = AgentToolsBuilder(settings, home, self.database, clock, events, confinement, own, storage)
        agent_tools = await builder.build(mesh, subagents)
        tools = agent_tools.tools
        summarizers = SummarizerModels(agents, limits.window, catalog.cached_cards, settings.compaction.model)
        compaction = self._compaction = CompactionService(summarizers, settings.compaction, storage.memory)
        finalizer, price_check = self._register_closable(TurnFinalizer(self.database, clock)), PriceCheck(catalog)
        notes = (mediation.constraints, Warnings(compaction.usable, tools.skills), MemoryNotes(storage.memory))
        runner = TurnRunner(
            database=self.database,
            ids=ids,
            clock=clock,
            model=model,
            tool_catalog=tools,
            home=home,
            authority_resolver=authority,
            parallel_tools=settings.max_parallel_tools,
            counters=counters,
            events=events,
            finalizer=finalizer,
            learnings=storage.learnings,
            context_budgets=compaction,
            daily_log=storage.daily_log,
            note_providers=notes,
            side_effect_gate=mediation.gate,
            price_check=price_check,
            skills_folder=settings.skills_path.resolve(),
        )
        compaction.attach(runner)
        learnings = storage.learnings
        prompts = SessionPromptBuilder(settings, home, clock, authority, agent_tools, learnings, confinement.name)
        live_sessions = LiveSessions(self.database, ids, clock, agents, settings.model, prompts)
        message_size_check = MessageSizeCheck(compaction, tools, authority)
        services = self._open_loop(runner, finalizer, live_sessions, message_size_check, learnings)
        subagents.attach(services, runner)
        tasks, chats = TaskService(services, limits.task, price_check), ChatService(services, limits.chat)
        work_stores = mediation.wire(services, chats, tasks, events, confined=confinement.name != "off")
        await Recovery(services, tasks, limits.chat(), work_stores).run()
        self._start_maintenance(catalog, live_sessions, storage.memory)
        self.app_state.services = Services(
            settings=settings,
            loop_services=services,
            chats=chats,
            human_answers=HumanAnswers(services),
            tasks=tasks,
            sessions=SessionService(services, tools, authority, catalog.card, compaction, secrets(settings)),
            files=storage.files,
            tools=tools,
            mcp_servers=agent_tools.connectors.servers,
            skill_index=agent_tools.skill_library,
            agents=agents,
            mesh=mesh,
            models=catalog,
            counters=counters,
            events=events,
            confinement=confinement.name,
            window_of=compaction.window,
        )
        self.app_state.channel = mediation.channel
        await mediation.start()

    async def run_file(self, source: Path, target: Path) -> bool:
        """The file door of a warm runtime; whether the work was completed. Raises StartError."""
        assert self._mediation is not None  # noqa: S101
        return await self._mediation.run_file(source, target)

    async def drain(self) -> None:
        """No new work; running turns get their grace, the next life settles what is left."""
        self.app_state.draining = True
        if self._compaction is not None:
            self._compaction.drain(self.settings.drain_grace)
        if self._mediation is not None:
            self._mediation.stop_accepting()
        if self._admission is not None:
            await self._admission.drain(self.settings.drain_grace)
        self.app_state.events.close()

    async def close(self) -> None:
        if self._admission is not None and not self.app_state.draining:  # the start was broken off behind the recovery
            await self._admission.drain(0)
        while self._closables:
            thing = self._closables.pop()
            try:
                await thing.close()
            except Exception:  # what fails to close must not keep the database open
                log.exception("could not be closed", thing=type(thing).__name__)
        self.database.close()

    def _open_loop(
        self,
        runner: TurnRunner,
        finalizer: TurnFinalizer,
        live_sessions: LiveSessions,
        message_size_check: MessageSizeCheck,
        learnings: LearningService,
    ) -> LoopServices:
        self._admission = Admission(
            self.database,
            runner.run,
            finalizer.finalize_cancelled,
            self.app_state.events,
            slots=self.settings.max_concurrent_turns,
            queue_limit=self.settings.max_queue,
            answer_seconds=self.settings.answer_timeout,
        )
        return LoopServices(
            database=self.database,
            admission=self._admission,
            live_sessions=live_sessions,
            ids=runner.ids,
            clock=self.clock,
            home=self.home,
            snapshot_guard=self._snapshot_guard,
            learnings=learnings,
            message_size_check=message_size_check,
        )

    def _open_model_access(self, gate: SideEffectGate) -> tuple[ModelCatalog, ModelClient, MeshClient]:
        """The models that there are, the client of the loop, and the client of skills."""
        from ..mesh import MeshClient, ModelCatalog, ModelClient, RetryPolicy

        settings, headers = self.settings, bearer_headers(self.settings)
        complete = settings.llm_base_url is None
        catalog = self._register_closable(ModelCatalog(settings.model_url, headers, self.clock, complete=complete))
        retries = RetryPolicy(settings.model_attempts, settings.model_idle_timeout)
        model = self._register_closable(ModelClient(settings.model_url, headers, catalog, retries))
        mesh = self._register_closable(MeshClient(settings.model_url, headers, settings.model, catalog, gate))
        return catalog, model, mesh

    async def _confine(self) -> Confinement:
        """How commands are confined. Their user gets the agent's home. Raises StartError."""
        raise_priority()
        confinement = await choose_confinement(self.settings.confinement, self.home.data_dir)
        self.home = self.home.with_owner(confinement.uid, by_path=confinement.by_path)
        return confinement

    def _start_maintenance(self, catalog: ModelCatalog, live_sessions: LiveSessions, memory: MemoryService) -> None:
        """Start to check the mesh, to make backups, and to delete what is old."""
        from ..mesh import MeshCheck

        self._register_closable(MeshCheck(catalog, self.settings.model_url, self.settings.model)).start()
        self._register_closable(BackupScheduler(self.database, self.settings.backup_minutes)).start()
        elsewhere = SessionData(live_sessions, self.home, memory.forget_messages)
        keep = RetentionLimits(self.settings.retention_days, self.settings.retention_rows)
        self._register_closable(SessionRetention(self.database, self.clock, keep, elsewhere)).start()

    def _register_closable(self, closable: T) -> T:
        self._closables.append(closable)
        return closable
