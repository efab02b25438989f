"""Follow the events of every agent that runs, in a task of its own that ends with the runtime.

Agents are followed whether or not anyone watches, so that what happens meanwhile can be replayed. An idle agent costs
one connection and a comment every 15 seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from agent_common.backoff import Backoff
from agent_common.clock import Clock
from agent_common.event_ring import EVENTS_LOST

from ..errors import Conflict, NotFound, RequestError
from ..fleet import Fleet, NotOffered
from .agent_api import AgentApi
from .event_reader import AgentEvent, EventReader, SentEvent, parse_event

log = structlog.get_logger(__name__)
HEAD_SECONDS = 15.0
SILENCE_SECONDS = 45.0
"""An agent writes at least every 15 seconds."""
BURST_BYTES = float(4 << 20)
BYTES_PER_SECOND = float(128 << 10)
"""What an agent may send at once, and for long. Beyond it is read more slowly."""
LEAST_COST = 512.0
"""Bytes that each event counts as at least."""
_BACKOFF = Backoff(first=0.2, most=30.0, jitter=0.5)
Publish = Callable[[str, AgentEvent], None]
"""Called with a workspace and an event of its agent."""


class AgentStreams:
    """The streams of all agents. Each is taken up again where it broke."""

    def __init__(self, fleet: Fleet, api: AgentApi, clock: Clock, publish: Publish) -> None:
        self._fleet = fleet
        self._api = api
        self._clock = clock
        self._publish = publish
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._external: dict[str, _Stream] = {}
        """Streams of agents that go on while they are stopped here: the next start takes them up where they were."""

    def start(self, workspace_id: str) -> None:
        """Follow a runtime that has begun to run."""
        self.stop(workspace_id)
        task = asyncio.create_task(self._follow(workspace_id), name=f"events-{workspace_id}")
        self._tasks[workspace_id] = task
        task.add_done_callback(lambda ended: self._on_ended(workspace_id, ended))

    def stop(self, workspace_id: str) -> None:
        """Follow the workspace no longer, because its runtime has ended. Idempotent."""
        if (task := self._tasks.pop(workspace_id, None)) is not None:
            task.cancel()

    def forget(self, workspace_id: str) -> None:
        """Follow a workspace no longer that is deleted. Idempotent."""
        self.stop(workspace_id)
        self._external.pop(workspace_id, None)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        self._tasks = {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_ended(self, workspace_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(workspace_id) is task:
            del self._tasks[workspace_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("agent_events_not_followed", workspace=workspace_id, why=repr(error))

    async def _follow(self, workspace_id: str) -> None:
        """Read the stream over any number of connections, until the runtime has ended or has no way to its API."""
        try:
            agent = await self._fleet.running_agent(workspace_id)
        except RequestError:
            return
        stream = self._external.get(workspace_id)
        if stream is None:
            stream = _Stream(workspace_id, None if agent.adopted else 0, self._publish, Allowance(self._clock))
        if agent.external:
            self._external[workspace_id] = stream
        failures = 0
        while True:
            try:
                await stream.read(self._api)
            except (NotFound, Conflict, NotOffered):
                return  # it was stopped, fenced or deleted, or its driver has no way to it
            except RequestError as error:  # for now, as while an external agent does not offer its API
                log.debug("agent_events_interrupted", workspace=workspace_id, why=error.message)
            except Exception as error:  # noqa: BLE001  after any other error the stream is read again
                log.error("agent_events_interrupted", workspace=workspace_id, why=repr(error))
            failures = 1 if stream.progressed else failures + 1
            await asyncio.sleep(_BACKOFF.pause(failures))


class Allowance:
    """How fast one agent's events are read."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left = BURST_BYTES
        self._at = clock.monotonic()

    def spend(self, size: int) -> float:
        """Count bytes or an event, and return the seconds to wait before going on."""
        now = self._clock.monotonic()
        earned = (now - self._at) * BYTES_PER_SECOND
        self._left = min(BURST_BYTES, self._left + earned) - max(LEAST_COST, size)
        self._at = now
        return max(0.0, -self._left / BYTES_PER_SECOND)


class _Stream:
    """One agent's stream, with the position that the host has reached in it."""

    def __init__(self, workspace_id: str, last: int | None, publish: Publish, allowance: Allowance) -> None:
        """`last`: 0 begins with all that a new runtime has sent, None with what it sends from now on."""
        self._workspace_id = workspace_id
        self._last = last
        self._publish = publish
        self._allowance = allowance
        self.progressed = False
        """Whether anything came over the latest connection."""

    async def read(self, api: AgentApi) -> None:
        """Publish the events of one connection, until it ends. Raises RequestError."""
        reader = EventReader()
        self.progressed = False
        async with api.get(self._workspace_id, "/events", HEAD_SECONDS, last_event=self._last) as connection:
            while received := await connection.read(SILENCE_SECONDS):
                self.progressed = True
                await asyncio.sleep(self._allowance.spend(len(received)))  # comments and unfinished events count too
                for sent in reader.feed(received):
                    self._pass_on(sent)
                    self._last = sent.position if sent.position is not None else self._last
                    await asyncio.sleep(self._allowance.spend(0))

    def _pass_on(self, sent: SentEvent) -> None:
        event = AgentEvent(type=EVENTS_LOST) if sent.too_long else parse_event(sent.data)
        if event is None:
            if sent.data:
                log.debug("agent_event_refused", workspace=self._workspace_id)
        elif event.type != EVENTS_LOST or self._last:  # a new runtime has no events before its first
            self._publish(self._workspace_id, event)
