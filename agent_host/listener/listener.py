"""The listener as one object, for the host and for programs that embed it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Any, Self

from agent_common.backoff import Draw
from agent_common.clock import Clock, SystemClock
from agent_common.net import ListeningSocket
from agent_common.protocol.work import Progress, WorkRequest

from ..database import HostDatabase
from ..errors import StartError
from .addresses import parse_address
from .audit.audit_log import AuditLog
from .audit.reader import read_audit
from .channels.channel import P
from .channels.workspace_channels import WorkspaceChannels
from .connection.acceptor import Acceptors, PendingConnections
from .connection.parsing import FrameParser
from .connection.services import SessionServices
from .dispatch.gauges import gauges
from .dispatch.task_reports import TaskReports
from .dispatch.wiring import Dispatch
from .ledger import subscriptions
from .ledger.ledger import WorkLedger
from .ledger.ledger_writer import LedgerWriter
from .ledger.listing import WorkListing, WorkQuery, list_work
from .ledger.task_results import TaskResults
from .ledger.work import LedgerRecord, check_loose_request
from .limits import ListenerLimits
from .metrics import Metrics
from .owner import NoOwner, WorkspaceOwner
from .timers import Timers
from .workspaces import WorkspaceOperations

_CLOSE_SECONDS = 10.0


class Listener:
    """Accepts connections of agents, gives them work, and records the results.

    The database must be up to date (`open_database`) and locked for this process (`ledger_lock`): the host's
    composition root does both.
    """

    def __init__(
        self,
        database: HostDatabase,
        url: str | None = "tcp://127.0.0.1:9900",
        *,
        limits: ListenerLimits | None = None,
        clock: Clock | None = None,
        draw: Draw = random.uniform,
        bound: ListeningSocket | None = None,
        owner: WorkspaceOwner | None = None,
    ) -> None:
        """`url`: the address that agents share; None if each workspace has its own. `bound`: a socket that is already
        bound to `url`. `owner`: runs the workspaces; None if they are run elsewhere. Raises InvalidRequest if `url` is
        malformed."""
        clock = clock or SystemClock()
        limits = limits or ListenerLimits()
        owner = owner or NoOwner()
        timers = Timers(clock)
        metrics = Metrics()
        writer = LedgerWriter(database)
        audit_log = AuditLog(writer=writer, metrics=metrics, clock=clock, timers=timers, content=limits.audit_content)
        task_results = TaskResults(clock)
        ledger = WorkLedger(
            writer=writer,
            task_results=task_results,
            audit_log=audit_log,
            metrics=metrics,
            clock=clock,
            limits=limits,
        )
        channels = WorkspaceChannels(ledger_writer=writer, clock=clock, owner=owner)
        task_results.result_url_of = channels.result_url_of
        dispatch = Dispatch(
            ledger=ledger,
            reports=TaskReports(ledger_writer=writer, task_results=task_results, metrics=metrics),
            channels=channels,
            owner=owner,
            audit_log=audit_log,
            metrics=metrics,
            timers=timers,
            clock=clock,
            limits=limits,
            draw=draw,
        )
        services = SessionServices(
            dispatch=dispatch,
            channels=channels,
            parser=FrameParser(ledger=ledger, clock=clock),
            audit_log=audit_log,
            metrics=metrics,
            timers=timers,
            clock=clock,
            limits=limits,
        )
        pending = PendingConnections(services)
        acceptors = Acceptors(pending, backlog=limits.backlog)
        self.workspaces = WorkspaceOperations(
            channels=channels,
            acceptors=acceptors,
            ledger=ledger,
            dispatch=dispatch,
            audit_log=audit_log,
            clock=clock,
            drain_timeout=limits.drain_timeout,
        )
        self._shared = parse_address(url, "MESH_LISTENER_URL") if url else None
        self._acceptors = acceptors
        self._audit_log = audit_log
        self._bound = bound
        self._limits = limits
        self._dispatch = dispatch
        self._pending = pending
        self.clock = clock
        self.timers = timers
        self.metrics = metrics
        self.channels = channels
        self.ledger = ledger
        self.ledger_writer = writer
        self.task_results = task_results

    # ---------------------------------------------------------------- open and close

    async def open(self) -> None:
        """Restore the work of an earlier process, then listen. Raises StartError if the shared address is not free."""
        await self.channels.load()
        await self._dispatch.recovery.run()
        if self._shared is not None:
            await self._acceptors.open(None, self._shared, self._bound)
        for channel in self.channels:
            if channel.listen is not None and channel.fence is None:
                try:
                    await self._acceptors.open(channel, parse_address(channel.listen))
                except StartError as error:  # one workspace's address must not stop the others
                    self._audit_log.alarm("address_unavailable", error.message, workspace=channel.workspace)

    async def close(self) -> None:
        """Ask the agents to close, then close. The work that they have is resumed by the next process."""
        self._acceptors.close_all()
        self._pending.close()
        goodbye = self._limits.close_timeout
        for channel in self.channels:
            if channel.session is not None:
                channel.session.drain(goodbye)
        await self.channels.wait_all_detached(goodbye)
        for channel in self.channels:
            if channel.session is not None:
                channel.session.end("closing")
        await asyncio.sleep(0)  # let the last frames go out
        await self._pending.abort_all()
        self.timers.close()
        await self._dispatch.close(_CLOSE_SECONDS)
        self._audit_log.flush()
        await asyncio.wait_for(self.ledger_writer.close(), _CLOSE_SECONDS)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # ---------------------------------------------------------------- state

    @property
    def attached(self) -> int:
        """Number of attached agents."""
        return self.channels.attached

    @property
    def failing(self) -> str | None:
        """Why the ledger cannot be written, or None if it can."""
        return self.ledger_writer.failure

    def render_metrics(self) -> str:
        """Return the metrics in Prometheus' text format."""
        return self.metrics.render(
            gauges(
                self.channels,
                unproven=self._pending.unproven,
                open_requests=len(self.ledger.active),
                commits=self.ledger_writer.commits,
            )
        )

    async def read_audit(
        self, workspace: str | None, request_id: str | None, after: int, limit: int
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return rows of the audit trail with ids above `after`, oldest first, and whether there may be more.

        None means all workspaces or requests. Raises Unavailable if the database cannot be read.
        """
        return await self.ledger_writer.read(
            lambda connection: read_audit(connection, workspace, request_id, after, limit)
        )

    def record_event(self, workspace: str, kind: str, detail: str | None = None, request_id: str | None = None) -> None:
        """Append a row to the audit trail for something that the host does with a workspace, or for a request or task
        of it."""
        self._audit_log.event(kind, detail, workspace=workspace, request_id=request_id)

    async def connect_agent(self, workspace: str, protocol: Callable[[], P]) -> P:
        """Open a connection to the HTTP API of the workspace's agent over its channel, and return its protocol.

        Raises NotFound, RequestError with `not_offered` if the agent does not offer it, and OSError if the agent is not
        attached or does not open it.
        """
        session = self.channels.get(workspace).session
        if session is None:
            raise ConnectionError("it is not attached")
        return await session.api.connect(protocol)

    # ---------------------------------------------------------------- work

    async def submit(
        self, workspace: str, request: WorkRequest, *, pinned: bool = False, expires_in: float | None = None
    ) -> tuple[LedgerRecord, bool]:
        """Store work for the workspace and queue it. The same work again returns its record, and True.

        `pinned`: the caller has chosen the request's version of the constraints; otherwise the host fills in the one in
        force. `expires_in`: seconds that the work may wait to be started; None means a day. Raises NotFound,
        InvalidRequest, Conflict, `LedgerFull` (429) and Unavailable.
        """
        if self.channels.get(workspace).loose:
            check_loose_request(request)
        seconds = self._limits.expires_after if expires_in is None else expires_in
        expires_ms = round(seconds * 1000)
        enqueue = self._dispatch.dispatcher.enqueue
        return await self.ledger.submit(workspace, request, pinned=pinned, expires_ms=expires_ms, enqueue=enqueue)

    async def get(self, request_id: str) -> LedgerRecord:
        """Return the current record. Raises NotFound if there is no such request."""
        return await subscriptions.read_as_delivered(self.ledger, request_id)

    async def list_work(self, query: WorkQuery) -> WorkListing:
        """Return a page of the work, newest first. Raises InvalidRequest if there is no request `query.after`."""
        return await list_work(self.ledger_writer, query)

    async def cancel(self, request_id: str, reason: str = "cancelled") -> LedgerRecord:
        """Cancel the work, and return its record. Idempotent; no effect on work that has ended.

        Raises NotFound if there is no such request.
        """
        work = self.ledger.active.get(request_id)
        if work is not None and not work.refused:
            if work.active and work.cancel_reason is None:  # else it is cancelled already, or over
                self._audit_log.event("cancel", reason, workspace=work.workspace, request_id=request_id)
                self._dispatch.canceller.cancel(work, reason)
            await self.ledger_writer.flush()
        return await self.ledger.read(request_id)

    async def wait(self, request_id: str, seconds: float) -> LedgerRecord:
        """Wait until the work has ended, at most `seconds`, and return its record. Raises NotFound."""
        return await subscriptions.wait(self.ledger, request_id, seconds)

    def follow(self, request_id: str) -> AsyncGenerator[LedgerRecord | Progress]:
        """Yield each change of the record, and progress, until the work has ended. A slow reader misses progress.

        Raises NotFound if there is no such request.
        """
        return subscriptions.follow(self.ledger, request_id)
