"""The guest's end: channel, clerk and ledger as they are in a runtime, and a worker that is done at once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from agent_common.clock import SystemClock
from agent_common.net import parse_endpoint
from agent_common.protocol.work import WorkRequest, WorkResult, WorkUsage, to_rfc3339
from agent_runtime.mediation import (
    MIGRATIONS,
    ChannelGate,
    ConstraintService,
    Identity,
    MediationChannel,
    Outbox,
    WorkRules,
    WorkService,
)
from agent_runtime.mediation.ledger import ledger
from agent_runtime.store import Database

from .host import SOCKET
from .programs import obey, run

_WINDOW = 32
_QUIET = 11.0


class Leaping(SystemClock):
    """Goes on by a whole quiet attachment at once."""

    def __init__(self) -> None:
        self._ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self._ahead

    def leap(self, seconds: float) -> None:
        self._ahead += seconds


class Watcher:
    """Fills ports.Events."""

    def __init__(self, clock: Leaping) -> None:
        self._clock = clock

    def emit(self, kind: str, _principal: str | None, /, **facts: Any) -> None:
        if kind == "channel-changed" and facts["state"] == "ready":
            self._clock.leap(_QUIET)  # as after so long an attachment; far less than three heartbeats


class Done:
    """Fills mediation.Job: its result is written as it begins to be waited for."""

    queued = False

    def __init__(self, database: Database, request: WorkRequest, now: int) -> None:
        self._database = database
        self._result = WorkResult(
            request_id=request.request_id,
            status="completed",
            content=request.content,
            completed_at=to_rfc3339(now),
            audit_ref=request.audit_ref,
        )

    async def wait_ended(self) -> bool:
        await self._database.write(lambda connection: ledger.save_result(connection, self._result), durable=True)
        return True

    def result(self) -> WorkResult | None:
        return self._result

    async def stop(self, why: str) -> None:
        """There is nothing to stop."""

    def usage(self) -> WorkUsage:
        return WorkUsage()

    def progress(self) -> None:
        """There is nothing to tell."""


class Stub:
    """Fills mediation.Worker: enters the request as a turn does, on the disk before anything is said."""

    def __init__(self, database: Database, clock: SystemClock) -> None:
        self._database, self._clock = database, clock

    async def start(self, request: WorkRequest) -> Done:
        now = self._clock.now_ms()
        await self._database.write(lambda connection: ledger.insert_request(connection, request, "", now), durable=True)
        return Done(self._database, request, now)

    def resume(self, entry: ledger.WorkEntry) -> Done | None:
        return Done(self._database, entry.request, self._clock.now_ms())


async def main(folder: Path) -> None:
    home = folder / "guest"
    home.mkdir()
    name, key = next(iter(json.loads((folder / "keys.json").read_text("utf-8")).items()))
    (home / "key").write_text(key, "utf-8")
    clock = Leaping()
    database = Database(home / "agent.db", MIGRATIONS)
    database.open()
    constraints = ConstraintService(home / "constraints")
    rules, outbox = WorkRules(_WINDOW, loose=False), Outbox(name, database, clock)
    clerk = WorkService(database, clock, Stub(database, clock), constraints, rules, outbox)
    me = Identity(name, home / "key", loose=False, window=_WINDOW, max_line=1 << 20)
    endpoint, gate = parse_endpoint(f"unix:{folder / SOCKET}"), ChannelGate(required=False)
    channel = MediationChannel(endpoint, me, clerk, gate, Watcher(clock), grace=30)

    async def cpu() -> float:
        return time.process_time()

    try:
        await channel.start()
        await obey("guest", folder, {"cpu": cpu})
    finally:
        await channel.close()
        database.close()


if __name__ == "__main__":
    run(main)
