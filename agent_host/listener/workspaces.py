"""An operator's actions on workspaces and their channels (docs/reference/mediation-host.md#what-an-operator-does)."""

from __future__ import annotations

import asyncio
import secrets

from agent_common.clock import Clock
from agent_common.net import Endpoint
from agent_common.protocol.work import Severity, to_rfc3339

from ..errors import Conflict, RequestError, StartError
from .addresses import is_reachable, parse_address
from .audit.audit_log import AuditLog
from .channels.channel import Auth, Dialect, WorkspaceChannel
from .channels.workspace_channels import WorkspaceChannels
from .connection.acceptor import Acceptors
from .dispatch.readiness import Readiness, build_readiness
from .dispatch.wiring import Dispatch
from .ledger.ledger import WorkLedger


class WorkspaceOperations:
    """Creates, fences, drains and reports on workspaces' channels."""

    def __init__(
        self,
        *,
        channels: WorkspaceChannels,
        acceptors: Acceptors,
        ledger: WorkLedger,
        dispatch: Dispatch,
        audit_log: AuditLog,
        clock: Clock,
        drain_timeout: float,
    ) -> None:
        self._channels = channels
        self._acceptors = acceptors
        self._ledger = ledger
        self._dispatch = dispatch
        self._audit_log = audit_log
        self._clock = clock
        self._drain_timeout = drain_timeout

    # ---------------------------------------------------------------- channels

    async def enrol(
        self,
        workspace: str,
        *,
        dialect: Dialect = "strict",
        auth: Auth | None = None,
        listen: str | None = None,
        required: bool = False,
        result_url: str | None = None,
        result_secret: str | None = None,
    ) -> tuple[WorkspaceChannel, str | None]:
        """Create a channel for the workspace. Returns it and its key, which is shown only now; None if it has no key.

        `auth` None means `hmac` for a strict agent and `none` for a loose one. `listen`: an address of its own.
        `result_url`: where results of its tasks are sent. `result_secret` None means a new one.
        Raises InvalidRequest if the arguments do not fit together, Conflict if the name or the address is taken.
        """
        auth = auth or ("none" if dialect == "loose" else "hmac")
        channel = await self._channels.create(
            workspace,
            dialect,
            auth,
            listen,
            required=required,
            result_url=result_url,
            result_secret=result_secret or secrets.token_urlsafe(32),
        )
        if listen is not None:
            try:
                await self._acceptors.open(channel, parse_address(listen))
            except StartError as error:
                await self._channels.delete(channel)
                raise _address_taken(error) from error
        self._audit_log.event("enrolled", f"{dialect} {auth} {listen or ''}".strip(), workspace=workspace)
        return channel, channel.key.decode() if channel.key else None

    async def delete_channel(self, workspace: str) -> None:
        """Delete the channel of a workspace that is deleted, or that could not be created. Idempotent.

        Its open work ends as `dead`. The ledger of work and the audit trail keep what they have.
        """
        channel = self._channels.find(workspace)
        if channel is not None:
            channel.fence = "deleted"
            channel.fence_reason = "the workspace is deleted"  # handshakes may be under way
            self.close_address(workspace)
            self._end_work(workspace)
            if channel.session is not None:
                channel.session.end("deleted", abruptly=True)
            await self._channels.delete(channel)
            self._audit_log.event("deleted", workspace=workspace, epoch=channel.epoch)
        self._end_work(workspace)  # what was submitted meanwhile
        await self._ledger.writer.flush()

    def _end_work(self, workspace: str) -> None:
        for work in list(self._ledger.active.values()):
            if work.workspace == workspace and work.active and not work.refused:
                self._ledger.finish(work, "dead", error="no_workspace: its workspace is deleted")

    async def set_required(self, workspace: str, required: bool) -> None:
        """Store whether the workspace's agent may do nothing that takes effect without the channel, from its next start
        on."""
        channel = self._channels.get(workspace)
        await self._channels.set_required(channel, required)
        self._audit_log.event("required" if required else "optional", workspace=workspace, epoch=channel.epoch)

    async def set_result_target(self, workspace: str, url: str | None, secret: str | None) -> None:
        """Store where results of the workspace's tasks are sent from now on, and the secret that signs them.

        `url` None: nowhere. `secret` None: as it is."""
        channel = self._channels.get(workspace)
        await self._channels.set_result_target(channel, url, secret or channel.result_secret)
        self._audit_log.event("result_target", "set" if url else "none", workspace=workspace, epoch=channel.epoch)

    def result_secret(self, workspace: str) -> str | None:
        """Return what signs the results of the workspace's tasks; None if there is nothing yet."""
        channel = self._channels.find(workspace)
        return channel.result_secret if channel is not None else None

    # ---------------------------------------------------------------- addresses

    @property
    def address(self) -> Endpoint | None:
        """The bound address that agents share, or None if there is none."""
        return self._acceptors.shared_address

    def address_of(self, workspace: str) -> Endpoint | None:
        """Return the address that the workspace's agent must connect to, even while its own address is closed.

        None if the workspace has no channel, or if it has no address of its own and there is no shared one.
        """
        channel = self._channels.find(workspace)
        if channel is None or channel.listen is None:
            return self.address if channel else None
        return channel.address or parse_address(channel.listen)

    def close_address(self, workspace: str) -> None:
        """Close the workspace's own address until it may attach again. Idempotent."""
        self._acceptors.close(workspace)

    async def _open_address(self, channel: WorkspaceChannel) -> None:
        """Open the workspace's own address again, on the same port. Raises Conflict if it is in use."""
        if channel.listen is None or self._acceptors.is_open(channel.workspace):
            return
        try:
            await self._acceptors.open(channel, channel.address or parse_address(channel.listen))
        except StartError as error:
            raise _address_taken(error) from error

    async def readiness(self, workspace: str) -> Readiness | None:
        """Report whether the workspace can be given work. Returns None if it has no channel."""
        channel = self._channels.find(workspace)
        if channel is None:
            return None
        address = self.address_of(workspace)
        up = address is not None and await asyncio.to_thread(is_reachable, address)
        return build_readiness(channel, address, reachable=up, gate=self._dispatch.gate, clock=self._clock)

    # ---------------------------------------------------------------- fences

    async def quarantine(self, workspace: str, reason: str) -> None:
        """Fence the workspace and end its session without notice to the guest. The work that it had ends as `dead`.

        The fence is stored last, and nothing waits before, so that it holds at once even if the database hangs or
        fails; that raises Unavailable.
        """
        channel = self._channels.get(workspace)
        self._channels.hold(channel, "quarantined", reason)
        self.close_address(workspace)
        self._audit_log.event("quarantined", reason, workspace=workspace, epoch=channel.epoch)
        self._end_delivered_work(channel, f"quarantined: {reason}")
        if channel.session is not None:
            channel.session.end("quarantined", abruptly=True)
        try:
            await self._channels.fence(channel, "quarantined", reason)
        except RequestError:
            self._audit_log.alarm("fence_not_written", reason, workspace=workspace, epoch=channel.epoch)
            raise
        await self._ledger.writer.flush()

    def _end_delivered_work(self, channel: WorkspaceChannel, error: str) -> None:
        """End the work that the agent may have begun."""
        slots = dict(channel.session.slots) if channel.session is not None else {}
        had = {**slots, **channel.lost}
        for work in self._ledger.active.values():
            if work.workspace == channel.workspace and work.deliveries and work.status != "queued":
                had[work.id] = work
        for work in had.values():
            if work.active:
                self._ledger.finish(work, "dead", error=error)
        channel.lost.clear()

    async def unquarantine(self, workspace: str) -> None:
        """Let the agent attach again; queued work is sent. Raises Conflict if the workspace is not in quarantine."""
        channel = self._channels.get(workspace)
        if channel.fence != "quarantined":
            raise Conflict(f"the workspace {workspace!r} is not in quarantine", code="not_quarantined")
        await self._open_address(channel)
        await self._channels.fence(channel, None, None)
        self._audit_log.event("unquarantined", workspace=workspace, epoch=channel.epoch)

    async def resume(self, workspace: str) -> None:
        """Undo a drain or a halt, and open the workspace's own address if it is closed.

        Raises Conflict if the workspace is in quarantine, or if its address is in use.
        """
        channel = self._channels.get(workspace)
        if channel.fence == "quarantined":
            raise Conflict(
                f"the workspace {workspace!r} is in quarantine: {channel.fence_reason}; "
                f"POST /workspaces/{workspace}/unquarantine first",
                code="quarantined",
            )
        await self._open_address(channel)
        if channel.fence is not None:
            await self._channels.fence(channel, None, None)
            if channel.constraints is not None:
                channel.constraints.owed_seconds = 0.0
                channel.constraints.alerted = False
        if channel.drained:
            await self._channels.set_drained(channel, False)
        self._dispatch.dispatcher.send_queued(channel)

    # ---------------------------------------------------------------- pace

    def workspace_changed(self, workspace: str) -> None:
        """Act on a workspace that has started or stopped running."""
        channel = self._channels.find(workspace)
        if channel is not None:
            self._dispatch.dispatcher.send_queued(channel)

    def pause(self, workspace: str) -> None:
        """Send nothing and stop all deadlines while the workspace's machine is paused. Idempotent."""
        channel = self._channels.get(workspace)
        if channel.paused:
            return
        channel.paused = True
        self._audit_log.event("paused", workspace=workspace, epoch=channel.epoch)
        if channel.session is not None:
            channel.session.freeze()
            self._dispatch.ack_timeouts.stop(channel)

    def unpause(self, workspace: str) -> None:
        """Run the deadlines again and send queued work, once the workspace's machine runs again. Idempotent."""
        channel = self._channels.get(workspace)
        if not channel.paused:
            return
        channel.paused = False
        self._audit_log.event("unpaused", workspace=workspace, epoch=channel.epoch)
        if channel.session is not None:
            channel.session.thaw()
            self._dispatch.ack_timeouts.start_if_owed(channel.session)
        self._dispatch.dispatcher.send_queued(channel)

    async def drain(self, workspace: str, seconds: float | None = None) -> None:
        """Send no more work until the workspace is resumed. The session ends once the agent has finished its work, at
        the latest after `seconds`; None means the listener's `drain_timeout`."""
        channel = self._channels.get(workspace)
        await self._channels.set_drained(channel, True)
        self._audit_log.event("drained", workspace=workspace, epoch=channel.epoch)
        if channel.session is not None:
            channel.session.drain(self._drain_timeout if seconds is None else seconds)

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
        """Put new constraints in force, and return their hash. `effective_at` None means now.

        Raises InvalidRequest if the payload is too large, and Conflict if the version is not newer.
        """
        channel = self._channels.get(workspace)
        current, known = await self._channels.save_constraints(
            channel,
            version,
            payload,
            severity=severity,
            effective_at=effective_at or to_rfc3339(self._clock.now_ms()),
            payload_ref=payload_ref,
        )
        if not known:
            self._audit_log.event("constraints", f"{version} {severity} {current.hash}", workspace=workspace)
            self._dispatch.constraints.enforce_new(channel)
            self._dispatch.dispatcher.requeue_waiting(channel)
        return current.hash


def _address_taken(error: StartError) -> Conflict:
    return Conflict(error.message.replace("MESH_LISTENER_URL", "listen"), code="address_taken")
