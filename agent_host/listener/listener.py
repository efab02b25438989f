"""The listener as one object: for the host, and for programs that bring their own."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable
from types import TracebackType
from typing import Self

from sqlalchemy import Connection

from agent_common.clock import Clock, SystemClock
from agent_common.net import Endpoint, ListeningSocket
from agent_common.protocol.work import Progress, Severity, WorkRequest, to_rfc3339

from ..database import HostDatabase
from ..errors import Conflict, StartError
from .addresses import bind, is_reachable, parse_address
from .audit.audit_log import AuditLog
from .channels.channel import Auth, Dialect, WorkspaceChannel
from .channels.workspace_channels import WorkspaceChannels
from .connection.acceptor import Acceptor, PendingConnections
from .dispatch import constraints, pausing
from .dispatch.dispatcher import Dispatcher
from .dispatch.readiness import Readiness, build_readiness, gauges
from .ledger import subscriptions
from .ledger.ledger import WorkLedger
from .ledger.ledger_writer import LedgerWriter
from .ledger.work import LedgerRecord, OpenWork, check_loose_request
from .limits import ListenerLimits
from .metrics import Metrics
from .parts import Draw, Parts
from .timers import Timers

_CLOSE_SECONDS = 10.0


class Listener:
    """Takes agents' connections, gives them work, keeps what comes of it.

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
    ) -> None:
        clock, limits = clock or SystemClock(), limits or ListenerLimits()
        self._shared = parse_address(url, "MESH_LISTENER_URL") if url else None
        self._bound = bound
        metrics, journal, timers = Metrics(), LedgerWriter(database), Timers(clock)
        trail = AuditLog(journal, metrics, clock, timers, content=limits.audit_content)
        self._parts = Parts(
            clock=clock,
            limits=limits,
            timers=timers,
            ledger_writer=journal,
            metrics=metrics,
            audit_log=trail,
            ledger=WorkLedger(journal, trail, metrics, clock, limits),
            channels=WorkspaceChannels(journal, clock),
            draw=draw,
        )
        self._parts.dispatcher = Dispatcher(self._parts)
        self._pending = PendingConnections(self._parts)
        self._acceptors: dict[str | None, Acceptor] = {}

    # ---------------------------------------------------------------- life

    async def open(self) -> None:
        """Loads what an earlier life has left, then listens. Raises StartError."""
        parts = self._parts
        await parts.channels.load()
        for work in await parts.ledger.load():
            self._restore_work(work)
        parts.ledger.on_new_work = parts.dispatcher.enqueue
        if self._shared is not None:
            await self._listen(None, self._shared, self._bound)
        for channel in parts.channels:
            if channel.listen is not None and channel.fence is None:
                try:
                    await self._listen(channel, parse_address(channel.listen))
                except StartError as error:  # one workspace's address must not keep the others from working
                    parts.audit_log.alarm("address_unavailable", error.message, workspace=channel.workspace)

    def _restore_work(self, work: OpenWork) -> None:
        """Work that is older than this life."""
        dispatch, channel = self._parts.dispatcher, self._parts.channels.find(work.workspace)
        if channel is None:
            self._parts.ledger.finish(work, "dead", error="no_workspace: its workspace is gone")
        elif work.lost:
            if work.cancel_reason is not None:
                self._parts.ledger.finish(work, "cancelled", error=f"cancelled: {work.cancel_reason}")
            else:
                dispatch.mark_lost(channel, work)
        elif work.status == "retry_wait" and work.not_before is not None:
            wait = (work.not_before - self._parts.clock.now_ms()) / 1000
            wait = max(0.0, min(wait, self._parts.limits.retry_max))
            dispatch.arm(work, wait, lambda: dispatch.requeue(work))
        else:
            dispatch.enqueue(work)

    async def _listen(
        self, channel: WorkspaceChannel | None, address: Endpoint, bound: ListeningSocket | None = None
    ) -> None:
        if bound is None:
            bound = bind(address, self._parts.limits.backlog)
        acceptor = Acceptor(self._parts, self._pending, bound, channel)
        await acceptor.open()
        self._acceptors[channel.workspace if channel else None] = acceptor
        if channel is not None:
            channel.address = acceptor.address

    async def close(self) -> None:
        """Asks the agents to close, and closes. What they have is resumed by the next life."""
        for acceptor in self._acceptors.values():
            acceptor.close()
        self._pending.close()
        goodbye = self._parts.limits.close_timeout
        for channel in self._parts.channels:
            if channel.session is not None:
                channel.session.drain(goodbye)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(goodbye):
                while self.attached:
                    self._parts.detached.clear()
                    await self._parts.detached.wait()
        for channel in self._parts.channels:
            if channel.session is not None:
                channel.session.end("closing")
        await asyncio.sleep(0)  # what was written last goes out
        await self._pending.abort_all()
        self._parts.timers.close()
        self._parts.audit_log.flush()
        await asyncio.wait_for(self._parts.ledger_writer.close(), _CLOSE_SECONDS)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # ---------------------------------------------------------------- what it is

    @property
    def address(self) -> Endpoint | None:
        """Where all agents may come, with the port that was really taken."""
        acceptor = self._acceptors.get(None)
        return acceptor.address if acceptor else None

    @property
    def attached(self) -> int:
        """Agents."""
        return sum(channel.session is not None for channel in self._parts.channels)

    @property
    def parts(self) -> Parts:
        return self._parts

    @property
    def failing(self) -> str | None:
        """Why the ledger is not written; None when it is."""
        return self._parts.ledger_writer.failure

    def render_metrics(self) -> str:
        """In Prometheus' text format."""
        return self._parts.metrics.render(gauges(self._parts, self._pending.unproven))

    def set_fleet_callbacks(self, is_running: Callable[[str], bool], on_halt: Callable[[str], None]) -> None:
        """Whoever runs the workspaces says whether one runs, and stops one that must not go on."""
        self._parts.is_running, self._parts.on_halt = is_running, on_halt

    def set_token_callbacks(
        self, revoke_tokens: Callable[[Connection, str], None], on_fenced: Callable[[str], None]
    ) -> None:
        """Register the owner of tokens: it deletes those of a fenced workspace in the transaction of the fence."""
        self._parts.channels.revoke_tokens, self._parts.channels.on_fenced = revoke_tokens, on_fenced

    def workspace_changed(self, workspace: str) -> None:
        """A workspace has begun or ceased to run."""
        channel = self._parts.channels.find(workspace)
        if channel is not None:
            self._parts.dispatcher.send_queued(channel)

    # ---------------------------------------------------------------- workspaces

    async def enrol(
        self,
        workspace: str,
        *,
        dialect: Dialect = "strict",
        auth: Auth | None = None,
        listen: str | None = None,
        required: bool = False,
    ) -> tuple[WorkspaceChannel, str | None]:
        """A channel for the workspace, and its key when there is one: it can be had only now. Without `auth` a strict
        agent proves itself by `hmac`, and a loose one by nothing.

        Raises InvalidRequest and Conflict.
        """
        auth = auth or ("none" if dialect == "loose" else "hmac")
        channel = await self._parts.channels.create(workspace, dialect, auth, listen, required=required)
        if listen is not None:
            try:
                await self._listen(channel, parse_address(listen))
            except StartError as error:
                await self._parts.channels.delete(workspace)
                raise Conflict(error.message.replace("MESH_LISTENER_URL", "listen"), code="address_taken") from error
        self._parts.audit_log.event("enrolled", f"{dialect} {auth} {listen or ''}".strip(), workspace=workspace)
        return channel, channel.key.decode() if channel.key else None

    async def delete_channel(self, workspace: str) -> None:
        """Takes back a channel of a workspace that never came to be."""
        self.close_address(workspace)
        await self._parts.channels.delete(workspace)

    def close_address(self, workspace: str) -> None:
        """Nobody finds its own address any more, until it may attach again. Again is a no-op."""
        acceptor = self._acceptors.pop(workspace, None)
        if acceptor is not None:
            acceptor.close()

    async def _open_address(self, channel: WorkspaceChannel) -> None:
        """Its own address is there again. Raises Conflict."""
        if channel.listen is None or channel.workspace in self._acceptors:
            return
        try:
            await self._listen(channel, channel.address or parse_address(channel.listen))  # with the port it had
        except StartError as error:
            raise Conflict(error.message.replace("MESH_LISTENER_URL", "listen"), code="address_taken") from error

    def channel(self, workspace: str) -> WorkspaceChannel:
        """Raises NotFound."""
        return self._parts.channels.get(workspace)

    def has_channel(self, workspace: str) -> bool:
        return self._parts.channels.find(workspace) is not None

    def address_of(self, workspace: str) -> Endpoint | None:
        """Where its agent must connect to; its own address also while nobody listens there."""
        channel = self._parts.channels.find(workspace)
        if channel is None or channel.listen is None:
            return self.address if channel else None
        return channel.address or parse_address(channel.listen)

    async def readiness(self, workspace: str) -> Readiness | None:
        """Whether it can be given work; None: it has no channel."""
        channel = self._parts.channels.find(workspace)
        if channel is None:
            return None
        address = self.address_of(workspace)
        up = address is not None and await asyncio.to_thread(is_reachable, address)
        return build_readiness(self._parts, channel, address, up)

    async def quarantine(self, workspace: str, reason: str) -> None:
        """Durable fence, then the cut; the guest is not told. What it was working on is dead."""
        parts, channel = self._parts, self.channel(workspace)
        await parts.channels.fence(channel, "quarantined", reason)
        self.close_address(workspace)
        parts.audit_log.event("quarantined", reason, workspace=workspace, epoch=channel.epoch)
        slots = dict(channel.session.slots) if channel.session is not None else {}
        had = {**slots, **channel.lost}
        for work in parts.ledger.active.values():
            if work.workspace == workspace and work.deliveries and work.status != "queued":
                had[work.id] = work
        for work in had.values():
            if work.active:
                parts.ledger.finish(work, "dead", error=f"quarantined: {reason}")
        channel.lost.clear()
        if channel.session is not None:
            channel.session.end("quarantined", abruptly=True)
        await parts.ledger_writer.flush()

    async def unquarantine(self, workspace: str) -> None:
        """Lets its agent attach again; what waits in its queue goes out. Raises Conflict when it was not in it."""
        channel = self.channel(workspace)
        if channel.fence != "quarantined":
            raise Conflict(f"the workspace {workspace!r} is not in quarantine", code="not_quarantined")
        await self._open_address(channel)
        await self._parts.channels.fence(channel, None, None)
        self._parts.audit_log.event("unquarantined", workspace=workspace, epoch=channel.epoch)

    async def resume(self, workspace: str) -> None:
        """Takes back a drain or a halt, and opens its own address if that could not be done before. Raises Conflict
        while it is in quarantine, or while its address cannot be had."""
        channel = self.channel(workspace)
        if channel.fence == "quarantined":
            raise Conflict(
                f"the workspace {workspace!r} is in quarantine: {channel.fence_reason}; "
                f"POST /workspaces/{workspace}/unquarantine first",
                code="quarantined",
            )
        await self._open_address(channel)
        if channel.fence is not None:
            await self._parts.channels.fence(channel, None, None)
            if channel.constraints is not None:
                channel.constraints.owed_seconds, channel.constraints.alerted = 0.0, False
        if channel.drained:
            await self._parts.channels.set_drained(channel, False)
        self._parts.dispatcher.send_queued(channel)

    def pause(self, workspace: str) -> None:
        """Its machine stands still: nothing is sent, and nothing that it does not do counts against it."""
        pausing.pause(self._parts, self.channel(workspace))

    def unpause(self, workspace: str) -> None:
        """Its machine runs again."""
        pausing.unpause(self._parts, self.channel(workspace))

    async def drain(self, workspace: str, seconds: float | None = None) -> None:
        """No new work until it is resumed; the agent ends what it has and closes, at the latest after so long."""
        channel = self.channel(workspace)
        await self._parts.channels.set_drained(channel, True)
        self._parts.audit_log.event("drained", workspace=workspace, epoch=channel.epoch)
        if channel.session is not None:
            channel.session.drain(self._parts.limits.drain_timeout if seconds is None else seconds)

    async def push_constraints(
        self,
        workspace: str,
        version: int,
        payload: bytes,
        *,
        severity: Severity = "MEDIUM",
        effective_at: str | None = None,
        payload_ref: str = "inline",
    ) -> str:
        """New constraints; gives their hash. Raises InvalidRequest and Conflict."""
        channel = self.channel(workspace)
        current, known = await self._parts.channels.save_constraints(
            channel,
            version,
            payload,
            severity=severity,
            effective_at=effective_at or to_rfc3339(self._parts.clock.now_ms()),
            payload_ref=payload_ref,
        )
        if not known:
            self._parts.audit_log.event("constraints", f"{version} {severity} {current.hash}", workspace=workspace)
            constraints.enforce_new(self._parts, channel)
            self._parts.dispatcher.requeue_waiting(channel)
        return current.hash

    # ---------------------------------------------------------------- work

    async def submit(
        self, workspace: str, request: WorkRequest, *, pinned: bool = False, expires_in: float | None = None
    ) -> tuple[LedgerRecord, bool]:
        """Takes work for the workspace, durably. The same once more gives its record, and True.

        `pinned`: the request's version of the constraints was chosen by the caller; else the host fills in what is in
        force. `expires_in`: seconds that it may wait to be begun. Raises NotFound, InvalidRequest, Conflict,
        `Full` (429) and Unavailable.
        """
        if self.channel(workspace).loose:
            check_loose_request(request)
        seconds = self._parts.limits.expires_after if expires_in is None else expires_in
        return await self._parts.ledger.submit(workspace, request, pinned=pinned, expires_ms=round(seconds * 1000))

    async def get(self, request_id: str) -> LedgerRecord:
        """Raises NotFound."""
        return await subscriptions.read_as_delivered(self._parts.ledger, request_id)

    async def cancel(self, request_id: str, reason: str = "cancelled") -> LedgerRecord:
        """Stops it; again, or when it is over: nothing. Raises NotFound."""
        work = self._parts.ledger.active.get(request_id)
        if work is not None and not work.refused:
            self._parts.audit_log.event("cancel", reason, workspace=work.workspace, request_id=request_id)
            self._parts.dispatcher.cancel(work, reason)
            await self._parts.ledger_writer.flush()
        return await self._parts.ledger.read(request_id)

    async def wait(self, request_id: str, seconds: float) -> LedgerRecord:
        """The record once it is over, or as it is when the time is up. Raises NotFound."""
        return await subscriptions.wait(self._parts.ledger, request_id, seconds)

    def follow(self, request_id: str) -> AsyncGenerator[LedgerRecord | Progress]:
        """Each change of the record, and progress, until it is over. A slow reader loses progress. Raises NotFound."""
        return subscriptions.follow(self._parts.ledger, request_id)
