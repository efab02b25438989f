"""Open the mediation channel, if the settings name one, and run work requests from files."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent_common.net import parse_endpoint

from ..loop import ChatService, LoopServices, TaskService
from ..mediation import (
    ChannelGate,
    ConstraintService,
    Identity,
    MediationChannel,
    Outbox,
    ServeConnection,
    TaskReporter,
    TurnWorker,
    WorkRules,
    WorkService,
    read_request,
    run_file_request,
    write_result,
)
from ..settings import Settings
from ..store import Database
from .secrets import redactor, secrets


class MediationSetup:
    """The work service of one agent, and its channel to the host. Without `AGENT_MEDIATION_URL` there is no channel."""

    def __init__(
        self,
        settings: Settings,
        gate: ChannelGate,
        constraints: ConstraintService,
        services: LoopServices,
        chats: ChatService,
        tasks: TaskService,
        reporter: TaskReporter | None,
        *,
        confined: bool,
        serve_api: ServeConnection | None,
    ) -> None:
        """`reporter`: as made by `task_reporter`. `confined`: commands run in a sandbox. `serve_api`: serves the HTTP
        API on a connection; None if there is no server."""
        self._settings = settings
        self.worker = TurnWorker(services, chats, tasks)
        loose = settings.mediation_dialect == "loose"
        self.work_service = WorkService(
            database=services.database,
            clock=services.clock,
            worker=self.worker,
            constraints=constraints,
            rules=WorkRules(settings.mediation_window, loose, confined),
            outbox=Outbox(settings.id, services.database, services.clock),
            reporter=reporter,
        )
        self.channel: MediationChannel | None = None
        if settings.mediation_url is None:
            return
        identity = Identity(
            settings.id,
            settings.mediation_key_file,
            loose,
            settings.mediation_window,
            settings.mediation_max_line,
            tuple(secrets(settings)),
        )
        endpoint = parse_endpoint(settings.mediation_url)
        grace = settings.mediation_grace
        self.channel = MediationChannel(
            endpoint,
            identity,
            self.work_service,
            gate,
            services.events,
            grace=grace,
            serve_api=serve_api if settings.mediation_api else None,
        )

    async def start(self) -> None:
        """Connect to the host. Call this after recovery, which settles the work of earlier processes."""
        if self.channel is not None:
            await self.channel.start()

    async def run_file(self, source: Path, target: Path) -> bool:
        """Run one request from a file and write its result to another. Return whether it was completed. Raises
        StartError."""
        await self.work_service.open()
        request = await asyncio.to_thread(
            read_request, source, self.work_service.clock, self.work_service.constraints.active.version
        )
        result = await run_file_request(self.work_service, request, redactor(self._settings))
        await asyncio.to_thread(write_result, target, result)
        return result.status == "completed"

    def stop_accepting(self) -> None:
        """Take no new work from the host. Running work is drained with all other turns."""
        if self.channel is not None:
            self.channel.stop_accepting()

    async def close(self) -> None:
        if self.channel is not None:
            await self.channel.close()
        else:
            await self.work_service.close()


def task_reporter(settings: Settings, database: Database) -> TaskReporter | None:
    """Return what reports the ends of tasks to the host; None without a channel."""
    if settings.mediation_url is None:
        return None
    return TaskReporter(database, loose=settings.mediation_dialect == "loose")
