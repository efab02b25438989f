"""The database rows of workspaces."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from agent_common.clock import Clock

from ..access import DEFAULT_TEAM
from ..database import HostDatabase, workspaces
from ..errors import Conflict, NotFound

InTransaction = Callable[[Connection], object]
State = Literal["stopped", "starting", "running", "stopping", "failed", "deleting"]
DesiredState = Literal["running", "stopped"]


def _ignore(_workspace: str, _change: str) -> None:
    return


def _ignore_team(_workspace: str) -> None:
    return


@dataclass(frozen=True, slots=True)
class Workspace:
    """One agent's place on this host, whether its runtime runs or not."""

    id: str
    driver: str
    state: State
    detail: str | None
    """Why the workspace is in this state, or None."""
    url: str
    """URL of the runtime's HTTP server while it runs."""
    data_dir: Path
    token: str = field(repr=False)
    created_at: int
    """Epoch milliseconds."""
    desired_state: DesiredState
    """Whether it is meant to run: `start` says so, `stop` and a quarantine take it back. A restart of the host and a
    runtime that ends by itself do not change it."""
    team: str = DEFAULT_TEAM
    """The team that the workspace belongs to, for lists."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """The runtime's variables that its creator has chosen."""
    restart_needed: bool = False
    """Whether its runtime was started before settings were changed."""


def check_not_deleting(workspace: Workspace) -> None:
    """Raise Conflict if the workspace is being deleted."""
    if workspace.state == "deleting":
        text = f"the workspace {workspace.id!r} is being deleted; delete it again if that has failed"
        raise Conflict(text, code="deleting")


@dataclass(frozen=True, slots=True)
class WorkspaceQuery:
    """Which workspaces to list, by id."""

    team: str | None = None
    """Only of this team; None: of all."""
    state: State | None = None
    """Only in this state; None: in any."""
    after: str | None = None
    """Only with larger ids."""
    limit: int | None = None
    """How many at most; None: all."""


class Workspaces:
    """Stores workspaces as rows, each with a data folder under `root`."""

    def __init__(self, database: HostDatabase, root: Path, clock: Clock) -> None:
        self._database = database
        self._root = root
        self._clock = clock
        self.on_change: Callable[[str, str], None] = _ignore
        """Called with the id and the new state of a workspace, or with `created` or `deleted`."""
        self.on_team_change: Callable[[str], None] = _ignore_team
        """Called with the id of a workspace that is new or gone, or may have another team, once that is committed."""

    @property
    def host_folder(self) -> Path:
        """The host's data folder, in which that of the workspaces is."""
        return self._root.parent

    async def reset(self, wanted: Collection[str], in_transaction: InTransaction) -> None:
        """Set all workspaces to stopped, because the process of the host that ran them has ended. Those that are not in
        `wanted` are no longer meant to run, and deletions are kept. `in_transaction` runs in the transaction."""
        stop = update(workspaces).where(workspaces.c.state != "deleting").values(state="stopped", detail=None)
        others = update(workspaces).where(workspaces.c.id.not_in(wanted))

        def work(connection: Connection) -> None:
            connection.execute(stop)
            connection.execute(others.values(desired_state="stopped", restart_needed=False))
            in_transaction(connection)

        await self._database.run(work)

    async def create(
        self, workspace_id: str, driver: str, url: str, *, team: str, settings: Mapping[str, str]
    ) -> Workspace:
        """Create a stopped workspace with a new token. Raises Conflict if the id is taken."""
        row = {
            "id": workspace_id,
            "driver": driver,
            "state": "stopped",
            "url": url,
            "token": f"agent_{secrets.token_urlsafe(32)}",
            "created_at": self._clock.now_ms(),
            "team": team,
            "settings": json.dumps(settings),
        }

        def work(connection: Connection) -> None:
            if connection.execute(select(workspaces.c.id).where(workspaces.c.id == workspace_id)).first():
                raise Conflict(f"there is a workspace {workspace_id!r} already; choose another id", code="id_taken")
            connection.execute(insert(workspaces).values(row))

        await self._database.run(work)
        self.on_team_change(workspace_id)
        self.on_change(workspace_id, "created")
        return await self.get(workspace_id)

    async def get(self, workspace_id: str) -> Workspace:
        """Return the workspace. Raises NotFound if it does not exist."""
        query = select(workspaces).where(workspaces.c.id == workspace_id)
        row = await self._database.run(lambda connection: connection.execute(query).mappings().first())
        if row is None:
            raise NotFound(f"there is no workspace {workspace_id!r}")
        return self._from_row(row)

    async def list(self, query: WorkspaceQuery) -> list[Workspace]:
        """Return workspaces, by id."""
        found = select(workspaces).order_by(workspaces.c.id).limit(query.limit)
        if query.team is not None:
            found = found.where(workspaces.c.team == query.team)
        if query.state is not None:
            found = found.where(workspaces.c.state == query.state)
        if query.after is not None:
            found = found.where(workspaces.c.id > query.after)
        rows = await self._database.run(lambda connection: connection.execute(found).mappings().all())
        return [self._from_row(row) for row in rows]

    async def set_state(
        self,
        workspace_id: str,
        state: State,
        detail: str | None = None,
        *,
        url: str | None = None,
        desired_state: DesiredState | None = None,
        in_transaction: InTransaction | None = None,
    ) -> Workspace:
        """Store the state and return the workspace. `url` and `desired_state` stay as they are if None.
        `in_transaction` runs in the same transaction."""
        given = {"url": url, "desired_state": desired_state}
        values: dict[str, object] = {"state": state, "detail": detail}
        values |= {name: value for name, value in given.items() if value}
        if state in ("starting", "stopped"):
            values["restart_needed"] = False
        query = update(workspaces).where(workspaces.c.id == workspace_id).values(values)

        def work(connection: Connection) -> None:
            connection.execute(query)
            if in_transaction is not None:
                in_transaction(connection)

        await self._database.run(work)
        self.on_change(workspace_id, state)
        return await self.get(workspace_id)

    async def change(
        self, workspace_id: str, *, team: str, settings: Mapping[str, str], restart_needed: bool
    ) -> Workspace:
        """Store what a caller may change, and return the workspace."""
        values = {"team": team, "settings": json.dumps(settings), "restart_needed": restart_needed}
        query = update(workspaces).where(workspaces.c.id == workspace_id).values(values)
        await self._database.run(lambda connection: connection.execute(query) and None)
        self.on_team_change(workspace_id)
        return await self.get(workspace_id)

    async def delete(self, workspace_id: str) -> None:
        """Delete the row. Idempotent."""
        query = delete(workspaces).where(workspaces.c.id == workspace_id)
        await self._database.run(lambda connection: connection.execute(query) and None)
        self.on_team_change(workspace_id)
        self.on_change(workspace_id, "deleted")

    def _from_row(self, row: RowMapping) -> Workspace:
        values = {**row, "settings": json.loads(row["settings"])}  # noqa: TID251  our own row
        return Workspace(**values, data_dir=self._root / row["id"])
