"""All that happens on the host, in one ring of events: workspaces, work, and the agents' own events."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import asdict

from agent_common.clock import Clock
from agent_common.event_ring import HEARTBEAT_SECONDS, EventRing, RingLimits
from agent_common.protocol import NOTICE_EVENT

from ..budgets import Crossing, agent_of
from ..fleet import Fleet
from ..gateway import AgentConnections
from ..listener import Listener, OpenWork, public_status
from .agent_api import AgentApi
from .agent_streams import AgentStreams
from .event_reader import AgentEvent
from .notice_limits import NoticeLimits
from .pending import PendingRequests
from .view import Audience, View

LIMITS = RingLimits(events=16_384, bytes=16 << 20, watchers=256)


class Activity:
    """The events of the host, and what waits for a person. Close it before the fleet's connections."""

    def __init__(self, fleet: Fleet, connections: AgentConnections, clock: Clock) -> None:
        api = AgentApi(fleet, connections)
        self.pending = PendingRequests(fleet, api)
        self._ring: EventRing[Audience] = EventRing(clock, LIMITS)
        self._notices = NoticeLimits(clock)
        self._streams = AgentStreams(fleet, api, clock, self._agent_event)

    def attach(self, listener: Listener) -> None:
        """Report what the listener does. Call this before it is opened."""
        listener.channels.on_change = self.workspace_changed
        listener.ledger.on_change = self._work_changed

    def watch(
        self, view: View, *, after: int | None, holder: str, heartbeat: float = HEARTBEAT_SECONDS
    ) -> AsyncGenerator[bytes]:
        """Return the events of a view as server-sent events; `holder` is the caller. Raises TooManyWatchers."""
        return self._ring.follow(view.sees, after=after, holder=holder, heartbeat=heartbeat)

    def end_streams(self) -> None:
        """End the streams of all watchers, because the host stops."""
        self._ring.close()

    async def close(self) -> None:
        self._ring.close()
        await self._streams.close()

    # ---------------------------------------------------------------- what happens

    def workspace_changed(self, workspace_id: str, change: str) -> None:
        """Report a new state of a workspace, and follow its agent while it runs."""
        facts = {"workspace": workspace_id, "change": change}
        self._ring.append("workspace-changed", Audience(workspace_id), facts, owner=workspace_id)
        if change == "running":
            self._streams.start(workspace_id)
        elif change in ("stopped", "failed", "deleting"):
            self._streams.stop(workspace_id)
        elif change == "deleted":
            self._streams.forget(workspace_id)
            self._notices.forget(workspace_id)

    def budget_used(self, crossing: Crossing) -> None:
        """Report that 80 % or all of a limit are used: of an agent's own to those who see its workspace, of others to
        those who see all."""
        kind = "budget-exhausted" if crossing.percent >= 100 else "budget-warning"
        workspace = agent_of(crossing.scope)
        facts = asdict(crossing) if workspace is None else {"workspace": workspace, **asdict(crossing)}
        self._ring.append(kind, Audience(workspace), facts, owner=workspace or "")

    def _work_changed(self, work: OpenWork) -> None:
        user = work.request.principal.name
        facts = {
            "workspace": work.workspace,
            "request_id": work.id,
            "user": user,
            "status": public_status(work.status),
            "attempts": work.attempts,
        }
        if work.error is not None:
            facts["error"] = work.error
        self._ring.append("work-changed", Audience(work.workspace, user), facts, owner=work.workspace)

    def _agent_event(self, workspace_id: str, event: AgentEvent) -> None:
        if event.type == NOTICE_EVENT:
            admitted = self._notices.admit(workspace_id, event)
            if admitted is None:
                return
            event = admitted
        facts = {"workspace": workspace_id, **event.facts}
        self._ring.append(event.type, Audience(workspace_id, event.user), facts, owner=workspace_id)
