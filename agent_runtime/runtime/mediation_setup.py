"""The door to the host, where there is one: its parts are wired here, in the order in which the runtime needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agent_common.net import parse_endpoint

from ..loop import ChatService, EventBus, LoopServices, TaskService, WorkStore
from ..mediation import (
    ChannelGate,
    ConstraintService,
    Identity,
    MediationChannel,
    Outbox,
    Redactor,
    TurnWorker,
    WorkRules,
    WorkService,
    read_request,
    run_file_request,
    write_result,
)
from ..settings import Settings
from ..workspace import Home
from .secrets import secrets


class MediationSetup:
    """What the channel needs of the runtime and the other way round. Without an URL there is the gate, which is open,
    and nothing else."""

    def __init__(self, settings: Settings, home: Home) -> None:
        self._settings = settings
        self.gate = ChannelGate(required=settings.mediation_required)
        self.constraints = ConstraintService(home.data_dir / "constraints", settings.constraints_file)
        self.work_service: WorkService | None = None
        self.channel: MediationChannel | None = None

    def load(self) -> None:
        """Reads the constraints. Raises StartError."""
        self.constraints.load()

    def wire(
        self, services: LoopServices, chats: ChatService, tasks: TaskService, events: EventBus, *, confined: bool
    ) -> Sequence[WorkStore]:
        """Those who keep records of what the last life left."""
        settings = self._settings
        worker = TurnWorker(services, chats, tasks)
        loose = settings.mediation_dialect == "loose"
        self.work_service = WorkService(
            database=services.database,
            clock=services.clock,
            worker=worker,
            constraints=self.constraints,
            rules=WorkRules(settings.mediation_window, loose, confined),
            outbox=Outbox(settings.id, services.database, services.clock),
        )
        if settings.mediation_url is not None:
            endpoint = parse_endpoint(settings.mediation_url)
            me = Identity(
                settings.id,
                settings.mediation_key_file,
                loose,
                settings.mediation_window,
                settings.mediation_max_line,
                tuple(secrets(settings)),
            )
            self.channel = MediationChannel(
                endpoint, me, self.work_service, self.gate, events, grace=settings.mediation_grace
            )
        return (worker,)

    async def start(self) -> None:
        """Dials, once what the last life left is taken up."""
        if self.channel is not None:
            await self.channel.start()

    async def run_file(self, source: Path, target: Path) -> bool:
        """One request from a file, its result into another: whether it was completed. Raises StartError."""
        assert self.work_service is not None  # noqa: S101  the runtime is warm
        await self.work_service.open()
        held = self.constraints.active.version
        request = await asyncio.to_thread(read_request, source, self.work_service.clock, held)
        result = await run_file_request(self.work_service, request, Redactor(secrets(self._settings)))
        await asyncio.to_thread(write_result, target, result)
        return result.status == "completed"

    def stop_accepting(self) -> None:
        """No new work from the host; what runs is drained with all other turns."""
        if self.channel is not None:
            self.channel.stop_accepting()

    async def close(self) -> None:
        if self.channel is not None:
            await self.channel.close()
        elif self.work_service is not None:
            await self.work_service.close()
