"""The database rows of workspaces."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sqlalchemy import Connection, RowMapping, insert, select, update

from agent_common.clock import Clock

from ..database import HostDatabase, workspaces
from ..errors import Conflict, NotFound

InTransaction = Callable[[Connection], object]
State = Literal["stopped", "starting", "running", "stopping", "failed"]


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


class Workspaces:
    """Stores workspaces as rows, each with a data folder under `root`."""

    def __init__(self, database: HostDatabase, root: Path, clock: Clock) -> None:
        self._database = database
        self._root = root
        self._clock = clock

    async def reset(self, in_transaction: InTransaction) -> None:
        """Set all workspaces to stopped, as children die with the host. `in_transaction` runs in the transaction."""
        query = update(workspaces).values(state="stopped", detail=None)
        await self._database.run(lambda connection: (connection.execute(query), in_transaction(connection)))

    async def create(self, workspace_id: str, driver: str, url: str) -> Workspace:
        """Create a stopped workspace with a new token. Raises Conflict if the id is taken."""
        row = {
            "id": workspace_id,
            "driver": driver,
            "state": "stopped",
            "url": url,
            "token": f"agent_{secrets.token_urlsafe(32)}",
            "created_at": self._clock.now_ms(),
        }

        def work(connection: Connection) -> None:
            if connection.execute(select(workspaces.c.id).where(workspaces.c.id == workspace_id)).first():
                raise Conflict(f"there is a workspace {workspace_id!r} already; choose another id", code="id_taken")
            connection.execute(insert(workspaces).values(row))

        await self._database.run(work)
        return await self.get(workspace_id)

    async def get(self, workspace_id: str) -> Workspace:
        """Return the workspace. Raises NotFound if it does not exist."""
        query = select(workspaces).where(workspaces.c.id == workspace_id)
        row = await self._database.run(lambda connection: connection.execute(query).mappings().first())
        if row is None:
            raise NotFound(f"there is no workspace {workspace_id!r}")
        return self._from_row(row)

    async def all(self) -> list[Workspace]:
        query = select(workspaces).order_by(workspaces.c.id)
        rows = await self._database.run(lambda connection: connection.execute(query).mappings().all())
        return [self._from_row(row) for row in rows]

    async def set_state(
        self,
        workspace_id: str,
        state: State,
        detail: str | None = None,
        url: str | None = None,
        in_transaction: InTransaction | None = None,
    ) -> Workspace:
        """Store the state and return the workspace. `in_transaction` runs in the same transaction."""
        values = {"state": state, "detail": detail, **({"url": url} if url else {})}
        query = update(workspaces).where(workspaces.c.id == workspace_id).values(values)

        def work(connection: Connection) -> None:
            connection.execute(query)
            if in_transaction is not None:
                in_transaction(connection)

        await self._database.run(work)
        return await self.get(workspace_id)

    def _from_row(self, row: RowMapping) -> Workspace:
        return Workspace(**row, data_dir=self._root / row["id"])
