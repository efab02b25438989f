"""Reads top to bottom as the life of a server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent_common.clock import SystemClock
from agent_common.telemetry import logger

from ..agents import AgentDirectory, ProjectRules
from ..api import AppState, Services, create_app
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
from ..sandbox import choose_confinement, raise_priority
from ..sessions import Ids
from ..settings import Settings
from ..store import BackupScheduler, Database
from ..workspace import Home
from .agent_tools import AgentToolsBuilder
from .mediation_setup import MediationSetup
from .migrations import MIGRATIONS
from .retention import RetentionLimits, SessionData, SessionRetention
from .secrets import bearer_headers, mesh_token, secrets
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
        from ..mesh import MeshCheck

        settings, clock = self.settings, self.clock
        mediated = self._mediation = self._register_closable(MediationSetup(settings, self.home))
        catalog, model, mesh = self._open_model_access(mediated.gate)
        raise_priority()
        confinement = await choose_confinement(settings.confinement, self.home.data_dir)
        home = self.home = self.home.with_owner(confinement.uid, by_path=confinement.by_path)
        agents = AgentDirectory(home.agents)
        mediated.load()
        powers = AuthorityResolver(agents, ProjectRules.read(home.data_dir), lambda: mediated.constraints.active.layer)
        limits = TurnLimitPolicy(settings, catalog)
        house = StorageServices.start(settings, home, self.database, clock, confinement, self._register_closable, mesh)
        helpers = self._register_closable(
            Subagents(agents, powers, max_concurrent=settings.max_subagents, limits=limits.subagent())
        )
        workshop = AgentToolsBuilder(
            settings, home, self.database, clock, self.app_state.events, confinement, self._register_closable, house
        )
        equipment = await workshop.build(mesh, helpers)
        tools = equipment.tools
        ids, counters, events = Ids(clock), Counters(), self.app_state.events
        compactions = self._compaction = CompactionService(
            SummarizerModels(agents, limits.window, catalog.cached_cards, settings.compaction.model),
            settings.compaction,
            house.memory,
        )
        settler, prices = self._register_closable(TurnFinalizer(self.database, clock)), PriceCheck(catalog)
        runner = TurnRunner(
            *(self.database, ids, clock, model, tools, home, powers, settings.max_parallel_tools),
            *(counters, events, settler, house.learnings, compactions),
            daily_log=house.daily_log,
            note_providers=(
                mediated.constraints,
                Warnings(compactions.usable, tools.skills),
                MemoryNotes(house.memory),
            ),
            side_effect_gate=mediated.gate,
            price_check=prices,
            skills_folder=settings.skills_path.resolve(),
        )
        compactions.attach(runner)
        admission = self._admission = Admission(
            self.database,
            runner.run,
            settler.finalize_cancelled,
            events,
            slots=settings.max_concurrent_turns,
            queue_limit=settings.max_queue,
            answer_seconds=settings.answer_timeout,
        )
        draft = SessionPromptBuilder(settings, home, clock, powers, equipment, house.learnings, confinement.name)
        conversations = LiveSessions(self.database, ids, clock, agents, settings.model, draft)
        shared = (self.database, admission, conversations, ids, clock, home, self._snapshot_guard, house.learnings)
        hallway = LoopServices(*shared, message_size_check=MessageSizeCheck(compactions, tools, powers))
        helpers.attach(hallway, runner)
        tasks, chats = TaskService(hallway, limits.task, prices), ChatService(hallway, limits.chat)
        keepers = mediated.wire(hallway, chats, tasks, events, confined=confinement.name != "off")
        await Recovery(hallway, tasks, limits.chat(), keepers).run()
        self._register_closable(MeshCheck(catalog, settings.model_url, settings.model)).start()
        self._start_maintenance(conversations, house.memory)
        self.app_state.services = Services(
            settings=settings,
            loop_services=hallway,
            chats=chats,
            human_answers=HumanAnswers(hallway),
            tasks=tasks,
            sessions=SessionService(hallway, tools, powers, catalog.card, compactions, secrets(settings)),
            files=house.files,
            tools=tools,
            mcp_servers=equipment.connectors.servers,
            skill_index=equipment.skill_library,
            agents=agents,
            mesh=mesh,
            models=catalog,
            counters=counters,
            events=events,
            confinement=confinement.name,
            window_of=compactions.window,
        )
        self.app_state.channel = mediated.channel
        await mediated.start()

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

    def _open_model_access(self, gate: SideEffectGate) -> tuple[ModelCatalog, ModelClient, MeshClient]:
        """The models that there are, the client of the loop, and the client of skills."""
        from ..mesh import MeshClient, ModelCatalog, ModelClient, RetryPolicy

        settings, headers = self.settings, bearer_headers(self.settings)
        complete = settings.llm_base_url is None
        catalog = self._register_closable(ModelCatalog(settings.model_url, headers, self.clock, complete=complete))
        retries = RetryPolicy(settings.model_attempts, settings.model_idle_timeout)
        model = self._register_closable(ModelClient(settings.model_url, headers, catalog, retries))
        token = mesh_token(settings)
        mesh = self._register_closable(MeshClient(settings.model_url, token, settings.model, catalog, gate))
        return catalog, model, mesh

    def _start_maintenance(self, live_sessions: LiveSessions, memory: MemoryService) -> None:
        """Start to make backups, and to delete what is old."""
        self._register_closable(BackupScheduler(self.database, self.settings.backup_minutes)).start()
        elsewhere = SessionData(live_sessions, self.home, memory.forget_messages)
        keep = RetentionLimits(self.settings.retention_days, self.settings.retention_rows)
        self._register_closable(SessionRetention(self.database, self.clock, keep, elsewhere)).start()

    def _register_closable(self, closable: T) -> T:
        self._closables.append(closable)
        return closable
