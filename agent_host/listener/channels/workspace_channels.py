"""Create, load and fence the channels of workspaces. The rows are authoritative; memory changes after them."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from agent_common.clock import Clock
from agent_common.net import Unix
from agent_common.protocol.work import Severity, payload_hash

from ...database import channels, constraint_sets, deleted_workspaces, task_results
from ...errors import Conflict, InvalidRequest, NotFound
from ..addresses import parse_address
from ..ledger.ledger_writer import LedgerWriter
from ..owner import WorkspaceOwner
from .channel import AckStatus, Auth, ConstraintSet, Dialect, Fence, WorkspaceChannel
from .rate_limit import FrameRateLimiter

MOST_PAYLOAD = 512 << 10
"""Largest payload in bytes: in base64 and with its frame it must fit into a line."""


def _ignore(_workspace: str, _change: str) -> None:
    return


class WorkspaceChannels:
    """All channels, by workspace."""

    def __init__(self, *, ledger_writer: LedgerWriter, clock: Clock, owner: WorkspaceOwner) -> None:
        self._ledger_writer = ledger_writer
        self._clock = clock
        self._owner = owner
        self._all: dict[str, WorkspaceChannel] = {}
        self._creating: set[str] = set()
        """Workspaces whose channels are being written."""
        self._detached = asyncio.Event()
        """Set each time an agent has detached."""
        self.on_change: Callable[[str, str], None] = _ignore
        """Called with a workspace and `quarantined`, `halted`, `drained`, or at its end `unquarantined`, `resumed`."""

    def __iter__(self) -> Iterator[WorkspaceChannel]:
        return iter(self._all.values())

    def __contains__(self, workspace: str) -> bool:
        return workspace in self._all

    def find(self, workspace: str) -> WorkspaceChannel | None:
        return self._all.get(workspace)

    def get(self, workspace: str) -> WorkspaceChannel:
        """Return the workspace's channel. Raises NotFound if it has none."""
        channel = self._all.get(workspace)
        if channel is None:
            raise NotFound(f"the workspace {workspace!r} has no mediation channel")
        return channel

    def result_url_of(self, workspace: str) -> str | None:
        """Return where the workspace wants results of its tasks sent; None: nowhere."""
        channel = self._all.get(workspace)
        return channel.result_url if channel is not None else None

    @property
    def attached(self) -> int:
        """Number of attached agents."""
        return sum(channel.session is not None for channel in self._all.values())

    def on_detached(self) -> None:
        """Wake `wait_all_detached` after an agent has detached."""
        self._detached.set()

    async def wait_all_detached(self, seconds: float) -> None:
        """Wait until no agent is attached, at most `seconds`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.attached:
                    self._detached.clear()
                    await self._detached.wait()

    async def load(self) -> None:
        """Read all channels and their newest constraints."""

        def read(connection: Connection) -> tuple[list[RowMapping], list[RowMapping]]:
            sets = select(*(column for column in constraint_sets.c if column.name != "payload"))
            return (
                list(connection.execute(select(channels)).mappings()),
                list(connection.execute(sets.order_by(constraint_sets.c.version)).mappings()),
            )

        rows, sets = await self._ledger_writer.run(read)
        for row in rows:
            self._all[row["workspace"]] = _channel_from_row(row, FrameRateLimiter(self._clock))
        for row in sets:
            if channel := self._all.get(row["workspace"]):
                channel.constraints = _constraints_from_row(row)

    async def create(
        self,
        workspace: str,
        dialect: Dialect,
        auth: Auth,
        listen: str | None,
        *,
        required: bool,
        result_url: str | None,
        result_secret: str,
    ) -> WorkspaceChannel:
        """Create a channel; with `hmac` it gets a key. Its epochs go on from those of a deleted workspace of this name.

        Raises InvalidRequest and Conflict as `check` does.
        """
        self.check(workspace, dialect, auth, listen)
        row = {
            "workspace": workspace,
            "dialect": dialect,
            "auth": auth,
            "listen": listen,
            "key": secrets.token_urlsafe(32) if auth == "hmac" else None,
            "fence": None,
            "fence_reason": None,
            "drained": False,
            "required": required,
            "result_url": result_url,
            "result_secret": result_secret,
            "created_at": self._clock.now_ms(),
        }

        def work(connection: Connection) -> dict[str, Any]:
            whole = {**row, "epoch": _last_epoch(connection, workspace)}
            connection.execute(insert(channels).values(whole))
            return whole

        self._creating.add(workspace)  # there was no await since the check
        try:
            stored = await self._ledger_writer.run(work)
            channel = self._all[workspace] = _channel_from_row(stored, FrameRateLimiter(self._clock))
        finally:
            self._creating.discard(workspace)
        return channel

    def check(self, workspace: str, dialect: Dialect, auth: Auth, listen: str | None) -> None:
        """Raise InvalidRequest if the arguments do not fit together, Conflict if the name or the address is taken."""
        if dialect == "loose" and auth == "hmac":
            why = "must be none or left out: an agent that speaks the loose dialect cannot prove its identity"
            raise InvalidRequest(f"auth {why}", faults=[("auth", why)])
        if auth == "none" and listen is None:
            why = "is missing: without auth the agent is known by an address of its own, such as tcp://127.0.0.1:9901"
            raise InvalidRequest(f"listen {why}", faults=[("listen", why)])
        if workspace in self._all or workspace in self._creating:
            raise Conflict(f"there is a workspace {workspace!r} already; choose another id", code="id_taken")
        if listen is None:
            return
        address = parse_address(listen)
        taken = (one.workspace for one in self._all.values() if one.listen and parse_address(one.listen) == address)
        if (isinstance(address, Unix) or address.port) and (other := next(taken, None)):
            raise Conflict(f"listen: {listen} is the address of the workspace {other!r}", code="address_taken")

    async def delete(self, channel: WorkspaceChannel) -> None:
        """Delete the channel with its constraints, and remember its epochs, which are never given again."""
        name = channel.workspace
        epoch = max(channel.epoch, *channel.offered_epochs, 0)

        def work(connection: Connection) -> None:
            row = {
                "workspace": name,
                "epoch": max(epoch, _last_epoch(connection, name)),
                "deleted_at": self._clock.now_ms(),
            }
            connection.execute(delete(deleted_workspaces).where(deleted_workspaces.c.workspace == name))
            connection.execute(insert(deleted_workspaces).values(row))
            connection.execute(delete(constraint_sets).where(constraint_sets.c.workspace == name))
            connection.execute(delete(channels).where(channels.c.workspace == name))
            waiting = (task_results.c.workspace == name) & (task_results.c.delivery_state == "pending")
            lost = {"delivery_state": "failed", "delivery_error": "its workspace was deleted, and with it the secret"}
            connection.execute(update(task_results).where(waiting).values(lost))

        await self._ledger_writer.run(work)
        self._all.pop(name, None)

    async def fence(self, channel: WorkspaceChannel, fence: Fence | None, reason: str | None) -> None:
        """Enforce the fence, then store it; None lifts it once that is stored. A fenced workspace has no tokens.

        A fence holds until the host ends even if the database refuses it, which raises Unavailable.
        """
        before = channel.fence
        if fence is not None:
            self.hold(channel, fence, reason)
        await self._update(channel, fence=fence, fence_reason=reason)
        channel.fence = fence
        channel.fence_reason = reason
        self.on_change(channel.workspace, fence or ("unquarantined" if before == "quarantined" else "resumed"))
        if fence is not None:
            self._owner.on_fenced(channel.workspace)

    def hold(self, channel: WorkspaceChannel, fence: Fence, reason: str | None) -> None:
        """Fence the workspace in memory: its agent cannot attach, and its tokens are refused."""
        channel.fence = fence
        channel.fence_reason = reason
        self._owner.on_fenced(channel.workspace)

    def save_epoch(self, channel: WorkspaceChannel, epoch: int, callback: Callable[[], None]) -> None:
        """Store the epoch, and call back once it is durable."""
        self._ledger_writer.save_epoch(channel.workspace, epoch, callback)

    async def set_drained(self, channel: WorkspaceChannel, drained: bool) -> None:
        await self._update(channel, drained=drained)
        channel.drained = drained
        self.on_change(channel.workspace, "drained" if drained else "resumed")

    async def set_required(self, channel: WorkspaceChannel, required: bool) -> None:
        await self._update(channel, required=required)
        channel.required = required

    async def set_result_target(self, channel: WorkspaceChannel, url: str | None, secret: str | None) -> None:
        """Store where results of its tasks are sent from now on, and the secret that signs them."""
        await self._update(channel, result_url=url, result_secret=secret)
        channel.result_url = url
        channel.result_secret = secret

    async def _update(self, channel: WorkspaceChannel, **values: Any) -> None:
        query = update(channels).where(channels.c.workspace == channel.workspace).values(values)

        def write(connection: Connection) -> None:
            connection.execute(query)
            if values.get("fence") is not None:
                self._owner.revoke_tokens(connection, channel.workspace)

        await self._ledger_writer.run(write)

    # ---------------------------------------------------------------- constraints

    async def save_constraints(
        self,
        channel: WorkspaceChannel,
        version: int,
        payload: bytes,
        *,
        severity: Severity,
        effective_at: str,
        payload_ref: str = "inline",
    ) -> tuple[ConstraintSet, bool]:
        """Store new constraints, and return them and whether they were stored already.

        Raises InvalidRequest if the payload is too large, and Conflict if the version is not newer.
        """
        if len(payload) > MOST_PAYLOAD:
            why = f"is larger than {MOST_PAYLOAD} bytes"
            raise InvalidRequest(f"payload {why}", faults=[("payload", why)])
        digest = payload_hash(payload)
        current = channel.constraints
        if current is not None and current.version == version and current.hash == digest:
            return current, True
        if current is not None and version <= current.version:
            raise Conflict(
                f"version: {version} is not newer than {current.version}, which is in force; choose a larger number",
                code="version_not_newer",
            )
        fresh = ConstraintSet(version, digest, payload_ref, severity, effective_at)
        row = {
            "workspace": channel.workspace,
            "version": version,
            "hash": digest,
            "payload": payload,
            "payload_ref": payload_ref,
            "severity": severity,
            "effective_at": effective_at,
            "status": "pending",
            "created_at": self._clock.now_ms(),
        }
        await self._ledger_writer.run(
            lambda connection: connection.execute(insert(constraint_sets).values(row)) and None
        )
        channel.constraints = fresh
        return fresh, False

    async def read_payload(self, channel: WorkspaceChannel, version: int) -> bytes:
        """Return the payload of a version. Raises NotFound if the version does not exist."""
        mine = (constraint_sets.c.workspace == channel.workspace) & (constraint_sets.c.version == version)
        query = select(constraint_sets.c.payload).where(mine)
        found = await self._ledger_writer.read(lambda connection: connection.execute(query).scalar())
        if found is None:
            raise NotFound(f"there are no constraints {version} of {channel.workspace!r}")
        return bytes(found)

    async def save_ack_status(self, channel: WorkspaceChannel, constraints: ConstraintSet, status: AckStatus) -> None:
        """Store whether the agent has acknowledged the constraints."""
        constraints.status = status
        at = self._clock.now_ms() if status == "acked" else None
        mine = (constraint_sets.c.workspace == channel.workspace) & (constraint_sets.c.version == constraints.version)
        query = update(constraint_sets).where(mine).values(status=status, acked_at=at)
        await self._ledger_writer.run(lambda connection: connection.execute(query) and None)


def channel_key_in(connection: Connection, workspace: str) -> str | None:
    """Return the key with which the workspace's agent proves its identity; None without a channel or without auth."""
    return connection.execute(select(channels.c.key).where(channels.c.workspace == workspace)).scalar()


def _last_epoch(connection: Connection, workspace: str) -> int:
    """Return the newest epoch of a deleted workspace of this name; 0 if there was none."""
    query = select(deleted_workspaces.c.epoch).where(deleted_workspaces.c.workspace == workspace)
    return connection.execute(query).scalar() or 0


def _channel_from_row(row: Mapping[Any, Any], rate_limiter: FrameRateLimiter) -> WorkspaceChannel:
    key = row["key"]
    rest = {name: value for name, value in dict(row).items() if name != "key"}
    return WorkspaceChannel(key=key.encode() if key else None, rate_limiter=rate_limiter, **rest)


def _constraints_from_row(row: RowMapping) -> ConstraintSet:
    names = ("version", "hash", "payload_ref", "severity", "effective_at", "status")
    return ConstraintSet(**{name: row[name] for name in names})
