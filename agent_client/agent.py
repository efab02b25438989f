"""`Agent`: one agent, reached at its own API or through its host."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from secrets import token_hex
from types import TracebackType
from typing import Any, Literal, Protocol, Self

import httpx2

from agent_common.protocol import (
    AbortReply,
    AgentStatus,
    AnswerReply,
    ApprovalScope,
    Capabilities,
    ListedRequest,
    ListedTask,
    PendingList,
    RecordStatus,
    SkillState,
    TaskList,
)

from .chat import Approval, ChatStream, Reply
from .events import AgentEvent, follow_events
from .files import Files
from .http import RECONNECT_SECONDS, SILENCE_SECONDS, Call, Connection, pages, path, without_none
from .permissions import AgentRules
from .sessions import Sessions
from .tasks import WAIT_SECONDS, Limits, T, Task, TaskInput, assignment_body, map_in_order

WhenBusy = Literal["queue", "reject", "steer", "interrupt"]
Decision = Literal["once", "always", "reject"]


class Request(Protocol):
    """What waits for a person: an `Approval`, a `Question`, or an entry of `pending`."""

    @property
    def session_id(self) -> str: ...

    @property
    def id(self) -> str: ...


class Agent:
    """An agent, on behalf of one user.

        async with Agent("http://localhost:8400", token) as agent:
            report = await agent.run("Summarize sales.csv", result=Report)
            async for event in agent.chat("And by region?"): ...

    `user` is the person for whom the token's holder speaks. Calls take at most `timeout` seconds, and those that wait
    for an agent at most their `wait`. A stream without a byte for `silence` seconds counts as broken: the server writes
    at least every 15. A `transport` of httpx2 may lead elsewhere: to a unix socket, through a proxy.
    """

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
        self._attach(Connection(url, token, user=user, timeout=timeout, silence=silence, transport=transport))

    @classmethod
    def over(cls, connection: Connection) -> Self:
        """Return the agent that this connection leads to."""
        agent = cls.__new__(cls)
        agent._attach(connection)
        return agent

    def _attach(self, connection: Connection) -> None:
        self._connection = connection
        self.sessions = Sessions(connection)
        self.files = Files(connection)
        self.permissions = AgentRules(connection)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. What the agent does goes on."""
        await self._connection.aclose()

    # ---------------------------------------------------------------- tasks

    async def run(
        self,
        given: TaskInput,
        *,
        result: type[T] | None = None,
        id: str | None = None,
        limits: Limits | None = None,
        agent: str | None = None,
        context: Mapping[str, Any] | None = None,
        result_url: str | None = None,
        wait: float = WAIT_SECONDS,
    ) -> T:
        """Have a task carried out and return its answer, as `result` if that is given (a pydantic model). The same `id`
        with the same content is the same task, so it is safe to run again. Raises what `Task.result` raises."""
        task = await self.submit(
            given, result=result, id=id, limits=limits, agent=agent, context=context, result_url=result_url
        )
        return await task.result(wait)

    async def submit(
        self,
        given: TaskInput,
        *,
        result: type[T] | None = None,
        id: str | None = None,
        limits: Limits | None = None,
        agent: str | None = None,
        context: Mapping[str, Any] | None = None,
        result_url: str | None = None,
    ) -> Task[T]:
        """Hand a task in; it is on the agent's disk when this returns. Its host sends the result to `result_url`.

        Raises Conflict if the id has other content, InvalidRequest if the agent has no host that would call the URL."""
        body = assignment_body(
            given, result=result, task_id=id, limits=limits or Limits(), agent=agent, context=context or {}
        )
        body |= {} if result_url is None else {"result_url": result_url}
        await self._connection.send(Call("POST", "/task", json=body, repeatable=True))
        return Task(self._connection, body["task_id"], result)

    async def map(
        self,
        inputs: Iterable[TaskInput],
        *,
        at_once: int = 4,
        result: type[T] | None = None,
        id: str | None = None,
        limits: Limits | None = None,
        agent: str | None = None,
        wait: float = WAIT_SECONDS,
    ) -> list[T]:
        """Run a task for each input, `at_once` at a time; the results have the order of the inputs. The task ids are
        `{id}-0`, `{id}-1`, ... Raises MapFailed with all results after the last has ended, if some failed."""
        prefix = id or f"map_{token_hex(6)}"

        async def run(given: TaskInput, number: int) -> T:
            name = f"{prefix}-{number}"
            return await self.run(given, result=result, id=name, limits=limits, agent=agent, wait=wait)

        return await map_in_order(run, inputs, at_once)

    def task(self, id: str, result: type[T] | None = None) -> Task[T]:
        """Return a task that was handed in before."""
        return Task(self._connection, id, result)

    async def tasks(self, *status: RecordStatus) -> AsyncGenerator[ListedTask]:
        """Yield the tasks, the newest first; of these states only if some are named."""
        async for page in pages(self._connection, TaskList, Call("GET", "/tasks", params={"status": status})):
            for task in page.tasks:
                yield task

    # ---------------------------------------------------------------- chats

    def chat(
        self,
        message: str,
        *,
        session: str | None = None,
        id: str | None = None,
        model: str | None = None,
        agent: str | None = None,
        on_busy: WhenBusy = "queue",
        sender: str | None = None,
        wait: float = WAIT_SECONDS,
        reconnect: float = RECONNECT_SECONDS,
    ) -> ChatStream:
        """Send a message and follow its turn. Without `session` it continues the user's main session. The same `id`
        with the same content is the same message, so it is safe to send again. `sender` names the member of a group
        for which the user stands; an answer that names another one is refused. The stream ends with ConnectionFailed
        when the server is away for `reconnect` seconds."""
        body = _message(message, session=session, id=id, model=model, agent=agent, on_busy=on_busy, sender=sender)
        return ChatStream(self._connection, Call("POST", "/chat/stream", json=body), wait, reconnect)

    async def send(
        self,
        message: str,
        *,
        session: str | None = None,
        id: str | None = None,
        model: str | None = None,
        agent: str | None = None,
        on_busy: WhenBusy = "queue",
        sender: str | None = None,
    ) -> None:
        """Send a message without waiting for its turn; it is on the agent's disk when this returns. `chat` with the
        same `id` follows it."""
        body = _message(message, session=session, id=id, model=model, agent=agent, on_busy=on_busy, sender=sender)
        body |= {"wait": 0}
        await self._connection.send(Call("POST", "/chat", json=body, repeatable=True))

    async def edit(self, message: str, *, session: str, id: str) -> None:
        """Give the user message `id` of an idle session other words: it and all that came after it are rewound, and the
        agent answers anew. It is on the agent's disk when this returns, and safe to repeat; `chat` with the same `id`
        and words follows the turn. Raises SessionBusy."""
        edited = {"id": id, "role": "user", "parts": [{"type": "text", "text": message}]}
        body = {"id": session, "messages": [edited], "messageId": id}
        async with ChatStream(self._connection, Call("POST", "/chat/stream", json=body), WAIT_SECONDS) as turn:
            await anext(turn, None)

    async def ask(self, message: str, *, session: str | None = None, wait: float = WAIT_SECONDS) -> Reply:
        """Send a message and return the reply. Raises TurnFailed, DeadlineExceeded while the turn goes on."""
        return await self.chat(message, session=session, wait=wait).reply()

    def watch(self, session: str, *, wait: float = WAIT_SECONDS, reconnect: float = RECONNECT_SECONDS) -> ChatStream:
        """Follow the turn that runs in a session, from its first event. Nothing comes when none runs."""
        call = Call("GET", path("chat", session, "stream"), params={"follow": True})
        return ChatStream(self._connection, call, wait, reconnect, any_turn=True)

    async def steer(self, message: str, *, session: str | None = None, id: str | None = None) -> None:
        """Add a message to the running turn, between two of its steps. It starts a turn if none runs."""
        await self.send(message, session=session, id=id, on_busy="steer")

    async def abort(self, session: str) -> AbortReply:
        """Stop the session's turn; its answer so far is kept."""
        call = Call("POST", path("chat", session, "abort"), repeatable=True)
        return await self._connection.fetch(AbortReply, call)

    async def unqueue(self, session: str, message_id: str) -> None:
        """Remove a message that waits for its turn. Raises NotFound, Conflict if its turn has begun."""
        await self._connection.send(Call("DELETE", path("chat", session, "queue", message_id)))

    async def answer(
        self,
        request: Request,
        given: Decision | str | Sequence[str] | Sequence[Sequence[str]],
        reason: str | None = None,
        *,
        scope: ApprovalScope | None = None,
        sender: str | None = None,
    ) -> AnswerReply:
        """Answer what waits for a person: an approval with `once`, `always` or `reject` (and a reason), a question with
        a text, several questions with one text or list of texts each. `always` holds for the session, or with the scope
        `agent` for all sessions of its user with the agent that asks. An entry of `pending` is answered for its user.
        Raises NotWaiting, and Conflict if `sender` is not the member of a group who was asked."""
        body: dict[str, Any] = {"id": request.id} | ({} if sender is None else {"sender": sender})
        if isinstance(request, Approval) or getattr(request, "kind", None) == "approval":
            body |= {"decision": given} | ({} if reason is None else {"reason": reason})
            body |= {} if scope is None else {"scope": scope}
        else:
            texts = [given] if isinstance(given, str) else given
            body["answers"] = [[one] if isinstance(one, str) else list(one) for one in texts]
        user = getattr(request, "user", None) if self._connection.user is None else None
        headers = {} if user is None else {"X-Agent-User": user}
        call = Call("POST", path("chat", request.session_id, "answer"), json=body, headers=headers)
        return await self._connection.fetch(AnswerReply, call)

    async def pending(self, *, user: str | None = None) -> AsyncGenerator[ListedRequest]:
        """Yield the questions and approvals that wait for a person, the oldest first: of the agent's user, of `user`,
        or of all users. `answer` takes them."""
        call = Call("GET", "/pending", params={} if user is None else {"user": user})
        async for page in pages(self._connection, PendingList, call):
            for request in page.pending:
                yield request

    # ---------------------------------------------------------------- the agent

    async def status(self) -> AgentStatus:
        """Read what the agent does right now."""
        return await self._connection.fetch(AgentStatus, Call("GET", "/status"))

    async def capabilities(self) -> Capabilities:
        """Read the agent's tools, skills, agents and models."""
        return await self._connection.fetch(Capabilities, Call("GET", "/capabilities"))

    async def skills(self) -> Sequence[SkillState]:
        """List the skills, with the error of those that cannot be called."""
        return (await self.capabilities()).skills

    async def events(self, after: str | None = None) -> AsyncGenerator[AgentEvent]:
        """Yield what happens to turns after the event with the id `after`, or from now on, over any number of
        connections. `events-lost` says that some are missing. Does not end by itself."""
        async with aclosing(follow_events(self._connection, Call("GET", "/events"), after)) as events:
            async for event in events:
                yield event


def _message(
    message: str, *, id: str | None, on_busy: WhenBusy, session: str | None, **turn: str | None
) -> dict[str, Any]:
    """Return the body of a chat request."""
    body = {"message": message, "message_id": id or f"client_{token_hex(12)}", "on_busy": on_busy}
    return body | without_none(session_id=session, **turn)
