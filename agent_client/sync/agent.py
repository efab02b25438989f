"""`SyncAgent`: the calls of `Agent` for programs without an event loop."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from typing import Self

import httpx2

from ..agent import Agent
from ..files import Files
from ..http import SILENCE_SECONDS
from ..permissions import AgentRules
from ..sessions import Sessions
from ..tasks import T
from .facade import Facade, OpenedFacade, iterating, waiting
from .turns import SyncTask, stream_of, task_of


class SyncSessions(Facade[Sessions]):
    list = iterating(Sessions.list)
    get = waiting(Sessions.get)
    messages = iterating(Sessions.messages)
    update = waiting(Sessions.update)
    archive = waiting(Sessions.archive)
    rewind = waiting(Sessions.rewind)
    unrewind = waiting(Sessions.unrewind)
    fork = waiting(Sessions.fork)
    compact = waiting(Sessions.compact)
    reset = waiting(Sessions.reset)
    prompt = waiting(Sessions.prompt)
    permissions = waiting(Sessions.permissions)
    permit = waiting(Sessions.permit)
    export = waiting(Sessions.export)
    import_ = waiting(Sessions.import_)


class SyncFiles(Facade[Files]):
    list = iterating(Files.list)
    stat = waiting(Files.stat)
    read = waiting(Files.read)
    stream = iterating(Files.stream)
    write = waiting(Files.write)
    delete = waiting(Files.delete)


class SyncAgentRules(Facade[AgentRules]):
    list = waiting(AgentRules.list)
    get = waiting(AgentRules.get)
    set = waiting(AgentRules.set)
    clear = waiting(AgentRules.clear)


class SyncAgent(OpenedFacade[Agent]):
    """An agent, on behalf of one user; see `Agent`."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        user: str | None = None,
        *,
        timeout: float = 60.0,
        silence: float = SILENCE_SECONDS,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(Agent(url, token, user, timeout=timeout, silence=silence, transport=transport))

    @classmethod
    def over(cls, agent: Agent, loop: AbstractEventLoop) -> Self:
        """Return the agent as it is called from this thread."""
        facade = cls.__new__(cls)
        facade.wrapped = agent
        facade._loop = loop
        return facade

    run = waiting(Agent.run)
    submit = task_of(Agent.submit)
    map = waiting(Agent.map)
    tasks = iterating(Agent.tasks)
    chat = stream_of(Agent.chat)
    ask = waiting(Agent.ask)
    watch = stream_of(Agent.watch)
    send = waiting(Agent.send)
    edit = waiting(Agent.edit)
    steer = waiting(Agent.steer)
    abort = waiting(Agent.abort)
    unqueue = waiting(Agent.unqueue)
    answer = waiting(Agent.answer)
    pending = iterating(Agent.pending)
    status = waiting(Agent.status)
    capabilities = waiting(Agent.capabilities)
    skills = waiting(Agent.skills)
    events = iterating(Agent.events)

    def task(self, id: str, result: type[T] | None = None) -> SyncTask[T]:
        """Return a task that was handed in before."""
        return SyncTask(self.wrapped.task(id, result), self.loop)

    @property
    def sessions(self) -> SyncSessions:
        return SyncSessions(self.wrapped.sessions, self.loop)

    @property
    def files(self) -> SyncFiles:
        return SyncFiles(self.wrapped.files, self.loop)

    @property
    def permissions(self) -> SyncAgentRules:
        return SyncAgentRules(self.wrapped.permissions, self.loop)
