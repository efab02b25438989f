"""`Mesh`: a host, with all its agents."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx2

from .agent import Agent
from .events import AgentEvent, follow_events
from .host_hub import HostHub
from .host_messages import (
    CreatedToken,
    HostRequest,
    PendingPage,
    ResultRecord,
    Token,
    TokenList,
    UnreachableAgent,
    UsageReport,
)
from .http import MAX_ANSWER_BYTES, SILENCE_SECONDS, Call, Connection, pages, path, without_none
from .results import WAIT_SECONDS, list_results, wait_for_result
from .team import Team
from .work import Work
from .workspaces import Workspaces


class Tokens:
    """The host's tokens, for the operator."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def list(self) -> Sequence[Token]:
        """List the tokens that are valid, without their secrets."""
        return (await self._connection.fetch(TokenList, Call("GET", "/tokens"))).tokens

    async def create(
        self, user: str | Sequence[str], workspaces: Sequence[str], expires: str | None = None
    ) -> CreatedToken:
        """Make a token that speaks for this user in these workspaces only, for example for `30d`.

        A list makes one that speaks for several users, named or by patterns such as `telegram:*`.
        """
        users = {"user": user} if isinstance(user, str) else {"users": [*user]}
        body = {**users, "workspaces": [*workspaces]} | ({} if expires is None else {"expires": expires})
        return await self._connection.fetch(CreatedToken, Call("POST", "/tokens", json=body))

    async def revoke(self, id: str) -> None:
        """Revoke one; requests that it has open are cut. Raises NotFound."""
        await self._connection.send(Call("DELETE", path("tokens", id)))


@dataclass(frozen=True, slots=True)
class Pending:
    """What waits for a person in the agents of a host."""

    requests: Sequence[HostRequest]
    """The oldest first. `mesh.agent(request.workspace).answer(request, ...)` answers one."""
    unreachable: Sequence[UnreachableAgent]
    """Agents that did not answer: requests of theirs may be missing."""


class Mesh:
    """A host, for its operator; with a token for people, only `agent`, `pending`, `events`, `results` and `result`, and
    with that of an agent only `team`.

    async with Mesh("http://localhost:8420", token) as mesh:
        await mesh.workspaces.start("writer")
        reply = await mesh.agent("writer").ask("hello")
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        silence: float = SILENCE_SECONDS,
        max_answer: int = MAX_ANSWER_BYTES,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`max_answer`: bytes of one answer, and of one event of a stream, beyond which it is refused."""
        self._connection = Connection(
            url, token, timeout=timeout, silence=silence, max_answer=max_answer, transport=transport
        )
        self.workspaces = Workspaces(self._connection)
        self.work = Work(self._connection)
        self.tokens = Tokens(self._connection)
        self.hub = HostHub(self._connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections, those of its agents too."""
        await self._connection.aclose()

    def agent(self, id: str, user: str | None = None) -> Agent:
        """Return the agent of a workspace, reached through the host, on behalf of `user`, whom a token that speaks for
        several must name."""
        return Agent.over(self._connection.below(f"{path('workspaces', id)}/api", user))

    def team(self, name: str | None = None) -> Team:
        """Return what the agents of a team share, for the operator or with the token of one of them. Without a name it
        is the team of that agent; for the operator `default`, and the agents are those of all teams."""
        return Team(self._connection, name)

    async def pending(self, *, workspace: str | None = None, user: str | None = None) -> Pending:
        """Read the questions and approvals that wait in all agents that run, or in one, of all users or of one."""
        call = Call("GET", "/pending", params=without_none(workspace=workspace, user=user))
        found = [page async for page in pages(self._connection, PendingPage, call)]
        silent = {one.workspace: one for page in found for one in page.unreachable}
        return Pending([request for page in found for request in page.pending], list(silent.values()))

    async def events(
        self, *, workspace: str | None = None, user: str | None = None, after: str | None = None
    ) -> AsyncGenerator[AgentEvent]:
        """Yield what happens to workspaces, work and turns after the event with the id `after`, or from now on, over
        any number of connections. With `user`, the events that are for all or for that one. `events-lost` says that
        some are missing. Does not end by itself."""
        call = Call("GET", "/events", params=without_none(workspace=workspace, user=user))
        async with aclosing(follow_events(self._connection, call, after)) as events:
            async for event in events:
                yield event

    async def results(
        self, workspace: str | None = None, task_id: str | None = None, user: str | None = None
    ) -> AsyncGenerator[ResultRecord]:
        """Yield the results of all tasks, the newest first; with `task_id` at most one. Raises ApiError
        `several_workspaces` if agents of several workspaces have reported that task, and none is named."""
        async for record in list_results(self._connection, workspace, task_id, user):
            yield record

    async def result(
        self, workspace: str, task_id: str, *, user: str | None = None, wait: float = WAIT_SECONDS
    ) -> ResultRecord:
        """Wait for the result of a task, however it ends. Raises DeadlineExceeded, and with `wait` 0 NotFound."""
        return await wait_for_result(self._connection, workspace, task_id, user, wait)

    async def usage(self, agent: str | None = None, recent: int = 50, *, user: str | None = None) -> UsageReport:
        """Read what model calls used, of all agents or one, for all users or one."""
        call = Call("GET", "/usage", params={"limit": recent, **without_none(agent=agent, user=user)})
        return await self._connection.fetch(UsageReport, call)
