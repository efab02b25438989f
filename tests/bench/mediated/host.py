"""The host's end: a listener on a database of its own, and callers that hand in work and wait for what comes of it."""

from __future__ import annotations

import asyncio
import json
import os
import time
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from agent_common.protocol.work import Principal, WorkRequest, to_rfc3339
from agent_host.database import open_database
from agent_host.listener import Listener, ListenerLimits
from agent_host.listener.connection.session import AgentSession
from agent_host.listener.ledger.work import OpenWork, Progress
from agent_host.logs import configure_logs

from .programs import obey, run

SOCKET = "channel.sock"
CONTENT = "lorem ipsum dolor sit amet " * 8
_PRINCIPAL = Principal(name="ann", kind="user", verified=True, verified_by="bench")
_PATIENCE = 60.0
_LOOKED_AT = 8
"""To see when a request is accepted costs something: one in so many is looked at."""


class Host:
    """What the bench can ask of it."""

    def __init__(self, listener: Listener, agents: list[str]) -> None:
        self._listener, self._agents = listener, agents
        self._numbers = count(1)

    async def attached(self, least: int = 1) -> int:
        """Waits until so many agents are attached and may be given work."""
        channels = self._listener.channels
        async with asyncio.timeout(_PATIENCE):
            while True:
                ready = sum(one.session is not None and one.session.state == "ready" for one in channels)
                if ready >= least:
                    return ready
                await asyncio.sleep(0.01)

    async def trips(self, total: int, flight: int) -> dict[str, Any]:
        """So many round trips, so many in flight: seconds of all, milliseconds of each to `accepting` and to its
        recorded result, and this process's CPU seconds."""
        left = iter(range(total))
        accepted: list[float] = []
        took: list[float] = []

        async def caller() -> None:
            for _ in left:
                number = next(self._numbers)
                began = time.perf_counter()
                await self._trip(number, began, accepted if number % _LOOKED_AT == 0 else None)
                took.append((time.perf_counter() - began) * 1000)

        before, cpu = self._frames(), time.process_time()
        began = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(flight)))
        seconds = time.perf_counter() - began
        cpu, frames = time.process_time() - cpu, self._frames() - before
        return {"seconds": seconds, "took": took, "accepted": accepted, "cpu": cpu, "frames": frames}

    async def _trip(self, number: int, began: float, accepted: list[float] | None) -> None:
        request = WorkRequest(
            request_id=f"bench-{number}",
            principal=_PRINCIPAL,
            content=CONTENT,
            constraints_version=0,
            submitted_at=to_rfc3339(time.time_ns() // 1_000_000),
            audit_ref=f"audit-{number}",
        )
        if accepted is None:
            await self._listener.submit(self._agents[0], request)
        else:
            await self._watched(request, began, accepted)
        record = await self._listener.wait(request.request_id, _PATIENCE)
        if record.result is None or record.result.status != "completed":
            raise RuntimeError(f"a round trip came to this: {record}")

    async def _watched(self, request: WorkRequest, began: float, accepted: list[float]) -> None:
        """Hands it in, and notes when it is accepted."""

        def watch(work: OpenWork, progress: Progress | None) -> None:
            if progress is None and work.status == "accepted":
                accepted.append((time.perf_counter() - began) * 1000)

        submitting = asyncio.ensure_future(self._listener.submit(self._agents[0], request))
        await asyncio.sleep(0)
        self._listener.ledger.active[request.request_id].watchers.append(watch)
        await submitting

    def _frames(self) -> int:
        metrics = self._listener.metrics
        return metrics.total("frames_in") + metrics.total("frames_out")

    async def memory(self) -> float:
        """KiB of this process."""
        return psutil.Process().memory_info().rss / 1024

    async def breaks(self) -> float:
        """Ends the connection under the first agent; milliseconds until it may be given work again."""
        channel = self._listener.channels.get(self._agents[0])
        elder = channel.session
        assert isinstance(elder, AgentSession)
        began = time.perf_counter()
        elder.connection.abort("the bench breaks it")
        async with asyncio.timeout(_PATIENCE):
            while channel.session in (None, elder) or channel.session.state != "ready":
                await asyncio.sleep(0.001)
        return (time.perf_counter() - began) * 1000


async def main(folder: Path, agents: str = "1", heartbeat: str = "15") -> None:
    os.dup2(os.open(folder / "host.log", os.O_WRONLY | os.O_CREAT), 2)  # a pipe would wake the bench with each line
    configure_logs("INFO", "json")
    database = open_database(f"sqlite:///{folder / 'host.db'}")
    names = [f"agent-{number}" for number in range(int(agents))]
    limits = ListenerLimits(heartbeat=float(heartbeat))
    try:
        async with Listener(database, f"unix:{folder / SOCKET}", limits=limits) as listener:
            keys = {name: (await listener.workspaces.enrol(name))[1] for name in names}
            for name in names:
                await listener.workspaces.push_constraints(name, 1, b'{"instructions": "Be brief."}')
            path = folder / "keys.json"
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            path.write_text(json.dumps(keys), "utf-8")
            host = Host(listener, names)
            asked = ("attached", "trips", "memory", "breaks")
            await obey("host", folder, {name: partial(getattr(host, name)) for name in asked})
    finally:
        database.close()


if __name__ == "__main__":
    run(main)
