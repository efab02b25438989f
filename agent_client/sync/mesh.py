"""`SyncMesh`: the calls of `Mesh` for programs without an event loop."""

from __future__ import annotations

import httpx2

from ..host_hub import HostHub
from ..http import SILENCE_SECONDS
from ..mesh import Mesh, Tokens
from ..work import Work
from ..workspaces import Workspaces
from .agent import SyncAgent
from .facade import Facade, OpenedFacade, iterating, waiting
from .team import SyncTeam


class SyncWorkspaces(Facade[Workspaces]):
    list = iterating(Workspaces.list)
    get = waiting(Workspaces.get)
    create = waiting(Workspaces.create)
    update = waiting(Workspaces.update)
    start = waiting(Workspaces.start)
    stop = waiting(Workspaces.stop)
    delete = waiting(Workspaces.delete)
    drain = waiting(Workspaces.drain)
    quarantine = waiting(Workspaces.quarantine)
    unquarantine = waiting(Workspaces.unquarantine)
    console = waiting(Workspaces.console)
    exec = waiting(Workspaces.exec)


class SyncWork(Facade[Work]):
    submit = waiting(Work.submit)
    get = waiting(Work.get)
    list = iterating(Work.list)
    cancel = waiting(Work.cancel)
    wait = waiting(Work.wait)
    follow = iterating(Work.follow)


class SyncTokens(Facade[Tokens]):
    list = waiting(Tokens.list)
    create = waiting(Tokens.create)
    revoke = waiting(Tokens.revoke)


class SyncHostHub(Facade[HostHub]):
    agents = iterating(HostHub.agents)
    sessions = iterating(HostHub.sessions)


class SyncMesh(OpenedFacade[Mesh]):
    """A host, with all its agents; see `Mesh`."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        silence: float = SILENCE_SECONDS,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(Mesh(url, token, timeout=timeout, silence=silence, transport=transport))

    pending = waiting(Mesh.pending)
    events = iterating(Mesh.events)
    results = iterating(Mesh.results)
    result = waiting(Mesh.result)
    usage = waiting(Mesh.usage)

    def agent(self, id: str, user: str | None = None) -> SyncAgent:
        """Return the agent of a workspace, reached through the host, on behalf of `user`."""
        return SyncAgent.over(self.wrapped.agent(id, user), self.loop)

    def team(self, name: str | None = None) -> SyncTeam:
        """Return what the agents of a team share; see `Mesh.team`."""
        return SyncTeam(self.wrapped.team(name), self.loop)

    @property
    def workspaces(self) -> SyncWorkspaces:
        return SyncWorkspaces(self.wrapped.workspaces, self.loop)

    @property
    def work(self) -> SyncWork:
        return SyncWork(self.wrapped.work, self.loop)

    @property
    def hub(self) -> SyncHostHub:
        return SyncHostHub(self.wrapped.hub, self.loop)

    @property
    def tokens(self) -> SyncTokens:
        return SyncTokens(self.wrapped.tokens, self.loop)
