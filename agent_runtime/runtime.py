"""The composition root: the only place where rooms meet. Reads top to bottom as the life of a server."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from .api import Desk, Front, create_app
from .clock import SystemClock
from .context import digest, system_prompt
from .errors import StartError
from .loop import MIGRATIONS as LOOP_MIGRATIONS
from .loop import (
    Admission,
    Answers,
    Chats,
    Conversations,
    Counters,
    EventBus,
    Hallway,
    Limits,
    Recovery,
    Sessions,
    Tasks,
    TurnRunner,
)
from .ports import Snapshots
from .protocol import TaskAssignment
from .sandbox import choose_confinement
from .sessions import MIGRATIONS as SESSION_MIGRATIONS
from .sessions import Ids, transfer
from .settings import DEFAULT_CONTEXT, Settings
from .skills import SkillHost
from .store import BackupKeeper, Database
from .telemetry import logger
from .tools import Gate, ToolRegistry, builtin_tools
from .workspace import Home, bootstrap

log = logger(__name__)
MIGRATIONS = (*SESSION_MIGRATIONS, *LOOP_MIGRATIONS)


class _Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class Runtime:
    """One agent, behind a port that is open already: `open`, `warm`, and at the end `drain` and `close`."""

    def __init__(self, settings: Settings, snapshots: Snapshots | None = None) -> None:
        self.settings, self.clock, self._snapshots = settings, SystemClock(), snapshots
        self.home = Home(settings.data_dir)
        self.database = Database(self.home.database, MIGRATIONS)
        self.front = Front(settings, self.clock.monotonic(), EventBus(self.clock))
        self.app = create_app(self.front, self.clock)
        self._asking: asyncio.Task[Any] | None = None
        """The first look at the model catalog; nobody waits for it."""
        self._admission: Admission | None = None
        self._closing: list[_Closable] = []
        """What `close` must close, last opened first."""

    def open(self) -> None:
        """Takes the data directory. Raises StartError that says why it cannot."""
        self.home.prepare()
        self.database.open()

    async def warm(self) -> None:
        """Loads what is slow to load, takes up what the last life left, then opens the doors. Raises StartError."""
        from .mesh import Catalog, MeshClient, ModelClient, Patience

        settings, clock = self.settings, self.clock
        headers = _bearer(settings)
        catalog = self._own(Catalog(settings.model_url, headers, clock))
        patience = Patience(settings.model_attempts, settings.model_idle_timeout)
        model = self._own(ModelClient(settings.model_url, headers, catalog, patience))
        token = settings.mesh_token.get_secret_value() if settings.mesh_token else None
        mesh = self._own(MeshClient(settings.model_url, token, settings.model, catalog))
        confinement = await choose_confinement(settings.confinement, self.home.data_dir)
        home = self.home = self.home.owned_by(confinement.uid)
        skills = self._own(
            SkillHost(
                settings.skills_path, confinement, mesh, workspace=home.workspace, memory_mb=settings.skill_memory_mb
            )
        )
        await skills.start()
        tools = ToolRegistry(
            builtin_tools(confinement, timeout=settings.tool_timeout),
            skills,
            gate=Gate(timeout=settings.tool_timeout),
        )

        def draft(_: str) -> tuple[str, str, tuple[str, ...]]:
            files = bootstrap(home)
            prompt = system_prompt(agent_id=settings.id, role=settings.role, files=files, now_ms=clock.now_ms())
            return prompt, digest(prompt), tuple(spec.name for spec in tools.snapshot().specs)

        ids, counters = Ids(clock), Counters()
        events = self.front.events
        runner = TurnRunner(
            self.database, ids, clock, model, tools, home, settings.max_parallel_tools, counters, events
        )
        self._own(runner)
        admission = self._admission = Admission(
            self.database,
            runner.run,
            runner.cancel,
            events,
            slots=settings.max_concurrent_turns,
            queue=settings.max_queue,
            answer_seconds=settings.answer_timeout,
        )
        conversations = Conversations(self.database, ids, clock, settings.model, draft)
        hallway = Hallway(self.database, admission, conversations, ids, clock, home, self._snapshots)
        limits = _Limits(settings, catalog)
        tasks = Tasks(hallway, limits.task)
        await Recovery(hallway, tasks, limits.chat()).run()
        self._asking = asyncio.create_task(catalog.card(settings.model))
        self._own(BackupKeeper(self.database, settings.backup_minutes)).start()
        self.front.desk = Desk(
            settings=settings,
            hallway=hallway,
            chats=Chats(hallway, limits.chat),
            answers=Answers(hallway),
            tasks=tasks,
            sessions=Sessions(hallway, tools, catalog.card, _secrets(settings)),
            tools=tools,
            mesh=mesh,
            models=catalog,
            counters=counters,
            events=events,
            confinement=confinement.name,
            context_limit=limits.context,
        )

    async def drain(self) -> None:
        """No new work; running turns get their grace, the next life settles what is left."""
        self.front.draining = True
        if self._admission is not None:
            await self._admission.drain(self.settings.drain_grace)
        self.front.events.close()

    async def close(self) -> None:
        if self._admission is not None and not self.front.draining:  # the start was broken off behind the recovery
            await self._admission.drain(0)
        if self._asking is not None:
            self._asking.cancel()
        while self._closing:
            thing = self._closing.pop()
            try:
                await thing.close()
            except Exception:  # what fails to close must not keep the database open
                log.exception("could not be closed", thing=type(thing).__name__)
        self.database.close()

    def _own(self, thing: T) -> T:
        self._closing.append(thing)
        return thing


class _Limits:
    """The limits of a turn, from the settings, the assignment and what the mesh says about the model."""

    def __init__(self, settings: Settings, catalog: Any) -> None:
        self._settings, self._catalog = settings, catalog

    def context(self) -> int:
        card = self._catalog.known(self._settings.model)
        return self._settings.context_limit or (card and card.context_limit) or DEFAULT_CONTEXT

    def chat(self) -> Limits:
        return Limits(self._settings.max_rounds, self._settings.turn_timeout, max_output=self._max_output())

    def task(self, assignment: TaskAssignment) -> Limits:
        budget = assignment.token_budget
        if budget is None:
            return Limits(
                self._settings.max_iterations,
                assignment.timeout,
                retries=assignment.max_retries,
                max_output=self._max_output(),
            )
        return Limits(
            self._settings.max_iterations,
            assignment.timeout,
            tokens=budget.max_tokens,
            tokens_before=budget.used_tokens,
            cost_usd=budget.max_cost_usd,
            cost_before=budget.estimated_cost_usd,
            retries=assignment.max_retries,
            max_output=self._max_output(),
        )

    def _max_output(self) -> int | None:
        card = self._catalog.known(self._settings.model)
        return card.max_output_tokens if card else None


def _bearer(settings: Settings) -> dict[str, str]:
    token = settings.mesh_token
    return {"authorization": f"Bearer {token.get_secret_value()}"} if token else {}


def import_session(settings: Settings, path: str) -> str:
    """Stores an exported session in a data directory that no server uses; its id.

    Raises StartError when the file cannot be read or the directory not be taken, InvalidRequest, Conflict, StoreError.
    """
    home = Home(settings.data_dir)
    database = Database(home.database, MIGRATIONS)

    async def store(file: BinaryIO) -> str:
        parcel = transfer.check(file)
        home.prepare()
        database.open()
        try:
            await database.write(lambda connection: transfer.store(connection, file, parcel), durable=True)
        finally:
            database.close()
        return parcel.session_id

    try:
        with Path(path).open("rb") as file:
            return asyncio.run(store(file))
    except OSError as error:
        raise StartError(f"{path} cannot be read: {error.strerror}") from error


def _secrets(settings: Settings) -> list[str]:
    """What must never leave by an export."""
    return [secret.get_secret_value() for secret in (settings.token, settings.mesh_token) if secret]
