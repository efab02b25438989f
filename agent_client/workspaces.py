"""The workspaces of a host: made, started, stopped, contained and deleted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from .host_messages import CommandOutcome, Console, CreatedWorkspace, Workspace, WorkspacePage
from .http import Call, Connection, pages, path, without_none

M = TypeVar("M", bound=BaseModel)
START_SECONDS = 180.0
"""A microVM has to boot, and a runtime may be given time for its last steps."""


class Workspaces:
    """The workspaces, for the operator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self, *, team: str | None = None) -> AsyncGenerator[Workspace]:
        """Yield the workspaces by id, of all teams or of one."""
        call = Call("GET", "/workspaces", params={} if team is None else {"team": team})
        async for page in pages(self._connection, WorkspacePage, call):
            for workspace in page.workspaces:
                yield workspace

    async def get(self, id: str) -> Workspace:
        """Read one. Raises NotFound."""
        return await self._connection.fetch(Workspace, Call("GET", path("workspaces", id)))

    async def create(
        self,
        id: str,
        *,
        driver: str | None = None,
        team: str | None = None,
        settings: Mapping[str, Any] | None = None,
        mediation: Mapping[str, Any] | None = None,
        result_url: str | None = None,
        result_secret: str | None = None,
    ) -> CreatedWorkspace:
        """Make a workspace, stopped. Raises Conflict if the id is taken, InvalidRequest that names the setting.

        Results of its tasks are sent to `result_url`, signed with `result_secret`; without one the host makes it.
        """
        body = without_none(
            id=id,
            driver=driver,
            team=team,
            settings=settings,
            mediation=mediation,
            result_url=result_url,
            result_secret=result_secret,
        )
        return await self._connection.fetch(CreatedWorkspace, Call("POST", "/workspaces", json=body))

    async def update(
        self,
        id: str,
        *,
        team: str | None = None,
        settings: Mapping[str, Any] | None = None,
        mediation: Mapping[str, Any] | None = None,
        result_url: str | Literal[False] | None = None,
        result_secret: str | None = None,
    ) -> Workspace:
        """Change what is given. A setting that is None is taken away, and so is a `result_url` that is False."""
        body = without_none(
            team=team, settings=settings, mediation=mediation, result_url=result_url, result_secret=result_secret
        )
        if result_url is False:
            body["result_url"] = None
        call = Call("PATCH", path("workspaces", id), json=body, repeatable=True)
        return await self._connection.fetch(Workspace, call)

    async def start(self, id: str) -> Workspace:
        """Start its runtime, and wait until that is ready. Raises ServerFailed with the end of its log, Quarantined."""
        return await self._post(Workspace, id, "start", repeatable=True)

    async def stop(self, id: str) -> Workspace:
        """Stop its runtime, and wait for its end."""
        return await self._post(Workspace, id, "stop", repeatable=True)

    async def delete(self, id: str, *, force: bool = False) -> None:
        """Delete the workspace, its data and its tokens. Raises Conflict while it runs, unless `force`."""
        params = {"force": True} if force else {}
        await self._connection.send(Call("DELETE", path("workspaces", id), params=params, timeout=START_SECONDS))

    async def drain(self, id: str, seconds: float | None = None) -> None:
        """Give it no new work until it is started again."""
        body = {} if seconds is None else {"deadline_s": seconds}
        call = Call("POST", path("workspaces", id, "drain"), json=body, repeatable=True)
        await self._connection.send(call)

    async def quarantine(self, id: str, reason: str = "by the operator") -> Workspace:
        """Contain it at once: its channel, its connections and its runtime end."""
        return await self._post(Workspace, id, "quarantine", {"reason": reason}, repeatable=True)

    async def unquarantine(self, id: str) -> Workspace:
        """End the quarantine; it stays stopped."""
        return await self._post(Workspace, id, "unquarantine")

    async def console(self, id: str) -> str:
        """Read the end of its runtime's output. The guest wrote it: do not trust it. Raises NotRunning."""
        return (await self._connection.fetch(Console, Call("GET", path("workspaces", id, "console")))).console

    async def exec(self, id: str, argv: Sequence[str], seconds: float = 30.0) -> CommandOutcome:
        """Run a command beside its runtime, if its driver can."""
        return await self._post(CommandOutcome, id, "exec", {"argv": [*argv], "timeout_s": seconds})

    async def _post(
        self, shape: type[M], id: str, verb: str, body: dict[str, Any] | None = None, *, repeatable: bool = False
    ) -> M:
        call = Call("POST", path("workspaces", id, verb), json=body, repeatable=repeatable, timeout=START_SECONDS)
        return await self._connection.fetch(shape, call)
