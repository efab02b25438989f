"""Kill runtimes that have stopped answering, so that they are started again.

A runtime whose event loop stands still ends by itself (`AGENT_STALL_TIMEOUT`). This finds those that cannot: a process
that is kept from running, a machine whose kernel gets on no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

import structlog

from agent_common.errors import describe
from agent_common.net import HttpConnection, TransportFault

from ..errors import RequestError
from .driver import AgentRuntime, NotOffered
from .fleet import Fleet
from .hooks import RecordEvent

log = structlog.get_logger(__name__)
CHECKS = 10
"""Checks in a row without an answer. However long the host itself is paused, only one of them fails for that."""
_PROBE = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class HungRuntimes:
    """Checks all runtimes that have answered at least once: one that cannot be asked is not taken for hung."""

    def __init__(
        self, fleet: Fleet, seconds: float, is_attached: Callable[[str], bool], record_event: RecordEvent
    ) -> None:
        """`is_attached`: whether a workspace's agent answers the pings of its channel."""
        self._fleet = fleet
        self._seconds = seconds
        self._pause = seconds / CHECKS
        self._is_attached = is_attached
        self._record_event = record_event
        self._missed: WeakKeyDictionary[AgentRuntime, int] = WeakKeyDictionary()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="hung-runtimes")

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            async with asyncio.TaskGroup() as group:
                for workspace_id in self._fleet.running_ids():
                    group.create_task(self._check(workspace_id), name=f"check-{workspace_id}")

    async def _check(self, workspace_id: str) -> None:
        try:
            agent = await self._fleet.running_agent(workspace_id)
            runtime = agent.runtime
            if agent.external or self._is_attached(workspace_id) or await _answers(runtime, self._pause):
                self._missed[runtime] = 0
            elif runtime in self._missed:
                self._missed[runtime] += 1
                if self._missed[runtime] >= CHECKS:
                    await self._kill(workspace_id, runtime)
        except RequestError:
            pass  # it was stopped meanwhile
        except Exception as error:  # noqa: BLE001  a fault of one must not end the checks of the others
            log.error("workspace_not_checked", workspace=workspace_id, why=describe(error))

    async def _kill(self, workspace_id: str, runtime: AgentRuntime) -> None:
        log.error("workspace_hung", workspace=workspace_id, seconds=self._seconds)
        self._record_event(workspace_id, "hung", f"no answer for {self._seconds:g} s (MESH_HANG_TIMEOUT): killed")
        await self._fleet.kill(workspace_id, runtime)


async def _answers(runtime: AgentRuntime, seconds: float) -> bool:
    """Return whether the runtime's HTTP server answers in time. A runtime without a way to it counts as answering."""
    try:
        async with asyncio.timeout(seconds):
            connection = await runtime.connect(HttpConnection)
        await connection.send(_PROBE, seconds)
    except NotOffered:
        return True
    except (OSError, TimeoutError, TransportFault):
        return False
    connection.close()
    return True
