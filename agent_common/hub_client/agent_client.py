"""One agent on the hub."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from uuid import uuid4

from ..protocol.hub import (
    EV_SESSION_INVITE,
    INVITE_ANSWERS,
    AgentKind,
    Envelope,
    NotifyFrame,
    Passport,
    ReceiptFrame,
    Resume,
    Rule,
    SessionInfo,
    SessionType,
    TurnOutcome,
    ViewPolicy,
    load_info,
)
from .connection import Connection, Subscription
from .interfaces import NetworkAgent
from .mailboxes import Mailboxes, handled
from .session import Session
from .tasks import Tasks

Handler = Callable[[Envelope], Awaitable[TurnOutcome | None]]
_REMEMBERED = 10_000
_INVITING = (EV_SESSION_INVITE, *INVITE_ANSWERS)
"""Events before a session is open. A wait does not acknowledge an open invitation: a handler has to answer it."""


class AgentClient:
    """An agent that is registered: what it opens, sends and waits for, and the handler of what it gets."""

    def __init__(
        self,
        connection: Connection,
        agent_id: str,
        agent: NetworkAgent | None,
        *,
        passport: Passport,
        resume: Resume,
        rule: Rule,
        key: str,
        hub: object | None,
        types: Mapping[str, SessionType[Any]],
    ) -> None:
        self._connection = connection
        self.agent_id = agent_id
        self.agent = agent
        self.passport = passport
        self.resume = resume
        self.rule = rule
        self.key = key
        """Secret of its registration, by which it comes over from a link that the hub does not know to be broken."""
        self.hub = hub
        """The hub itself, if it is in this process."""
        self.types = types
        """The types of sessions that it knows."""
        self.tasks = Tasks(self._ask)
        """Its tasks, and those that it may see."""
        self._handler: Handler = _no_handler
        self._mailboxes = Mailboxes(self._handle, self._answer)
        self._waited: OrderedDict[str, int] = OrderedDict()
        """Per session, the sequence of the last event that a wait has returned."""

    # ---------------------------------------------------------------- what it does

    async def open(
        self,
        type: str,
        target: str | Sequence[str],
        *,
        knobs: dict[str, Any] | None = None,
        labels: dict[str, str] | None = None,
        ttl: float | None = None,
        parent: str | None = None,
        timeout: float = 60.0,  # noqa: ASYNC109
    ) -> Session:
        """Open a session; return it once all who are invited have acknowledged. Raises NetworkError or TimeoutError.

        `parent`: the session within whose turn it is opened; None: that of the handler that runs, if there is one.
        Those who wait for that turn cannot be invited."""
        frame = handled.get()
        if parent is None and frame is not None:
            parent = frame.envelope.session_id
        params = {
            "agent_id": self.agent_id,
            "type": type,
            "targets": [target] if isinstance(target, str) else list(target),
            "knobs": knobs or {},
            "labels": labels or {},
            "ttl": ttl,
            "parent": parent,
            "key": uuid4().hex,
        }
        info = await self._connection.ask("open", params, deadline=timeout)
        return self.session(info["session_id"])

    def session(self, session_id: str) -> Session:
        """A session that it takes part in."""
        return Session(self, session_id)

    async def send_envelope(self, envelope: Envelope) -> str:
        """Send an envelope; return its id once it is in the log. Raises NetworkError.

        Without an idempotency key it gets one, so that it is stored once even if the link breaks meanwhile."""
        update = {"sender_id": self.agent_id, "idempotency_key": envelope.idempotency_key or uuid4().hex}
        return await self._connection.send(envelope.model_copy(update=update))

    async def wait_for_session_event(
        self,
        session_id: str,
        predicate: Callable[[Envelope], bool],
        timeout: float = 300.0,  # noqa: ASYNC109
    ) -> Envelope:
        """Wait for an event of the others that matches, and return it. One that came before the wait counts, too,
        unless an earlier wait has returned it or a later one. Raises NetworkError or TimeoutError.

        Without a handler the wait acknowledges what it has looked at, so that the inbox does not fill up."""
        after = self._waited.get(session_id, 0)
        async with (
            asyncio.timeout(timeout),
            self._connection.subscribe(session_id, self.agent_id, after) as events,
        ):
            while True:
                envelope = await events.get()
                is_wanted = envelope.sender_id != self.agent_id and predicate(envelope)
                if is_wanted or envelope.event_type not in _INVITING:
                    self._mailboxes.drain(session_id, envelope.sequence)
                if is_wanted:
                    self._waited[session_id] = max(self._waited.pop(session_id, 0), envelope.sequence)
                    if len(self._waited) > _REMEMBERED:
                        self._waited.popitem(last=False)
                    return envelope

    def events(self, session_id: str, after: int) -> AbstractAsyncContextManager[Subscription]:
        """What is said in a session after a sequence, beside what is delivered: from its log, then live."""
        return self._connection.subscribe(session_id, self.agent_id, after)

    def on_envelope(self, callback: Handler) -> None:
        """Call `callback` with each envelope from now on. The envelope is acknowledged when it returns; if it raises,
        the hub delivers the envelope again after a pause. Without a handler envelopes wait for one, or for a wait that
        looks at them."""
        self._handler = callback
        self._mailboxes.open()

    # ---------------------------------------------------------------- what it may know

    async def session_info(self, session_id: str) -> SessionInfo:
        """A session that it takes part in. Raises NetworkError."""
        return load_info(await self._ask("info", session_id=session_id))

    async def close_session(self, session_id: str, reason: str) -> None:
        """Close a session that it has created. Raises NetworkError."""
        await self._ask("close", session_id=session_id, reason=reason)

    async def default_view_policy(self, session_id: str) -> ViewPolicy:
        """How participants of a session see what was said, by default."""
        info = await self.session_info(session_id)
        return self.types[info.type].default_view_policy(len(info.participants))

    async def can_send(self, session_id: str) -> bool:
        """Whether a text of it would be accepted now."""
        return await self._ask("can_send", session_id=session_id)

    async def sessions(self, after: str = "", limit: int = 100) -> list[dict[str, str]]:
        """Sessions that it takes part in, a page at a time in the order of their ids: id, type and state of each."""
        return await self._ask("sessions", after=after, limit=limit)

    async def list_agents(
        self,
        *,
        capability: str | None = None,
        text: str | None = None,
        kind: AgentKind | None = None,
        after: str = "",
        limit: int = 50,
    ) -> list[dict[str, Any]]:
        """Agents of the hub by name, a page at a time: id, passport, resume and card of each. Raises NetworkError."""
        params = {"capability": capability, "text": text, "kind": kind, "after": after, "limit": limit}
        return await self._connection.ask("list_agents", params)

    async def read_log(self, session_id: str, after: int, limit: int) -> tuple[list[Envelope], int | None]:
        """A page of what it may read of a log, and the sequence after which the next one begins."""
        page = await self._ask("read_log", session_id=session_id, after=after, limit=limit)
        return [Envelope.model_validate(one) for one in page["envelopes"]], page["next"]

    async def turn_before(self, envelope: Envelope) -> tuple[str | None, TurnOutcome | None]:
        """What it has done about an envelope before: the id of its reply, and the outcome of its turn."""
        found = await self._ask(
            "turn", session_id=envelope.session_id, envelope_id=envelope.envelope_id, sequence=envelope.sequence
        )
        return found["reply"], found["outcome"]

    async def set_rule(self, rule: Rule) -> None:
        """Change its rule."""
        await self._ask("set_rule", rule=rule.model_dump(mode="json"))
        self.rule = rule

    async def set_resume(self, resume: Resume) -> None:
        """Change its resume."""
        await self._ask("set_resume", resume=resume.model_dump(mode="json"))
        self.resume = resume

    async def _ask(self, op: str, **params: Any) -> Any:
        return await self._connection.ask(op, {"agent_id": self.agent_id, **params})

    # ---------------------------------------------------------------- what it gets

    def receive(self, frame: NotifyFrame) -> None:
        """Take a delivery. Never waits."""
        self._mailboxes.put(frame)

    def give_up(self, envelope_id: str) -> None:
        """An envelope that its handler has refused too often does not come again."""
        self._mailboxes.give_up(envelope_id)

    def start_over(self) -> None:
        """The link is a new one."""
        self._mailboxes.start_over()

    async def close(self) -> None:
        """Cancel the handlers that run."""
        await self._mailboxes.close()

    async def _handle(self, envelope: Envelope) -> TurnOutcome | None:
        return await self._handler(envelope)

    async def _answer(self, frame: NotifyFrame, outcome: TurnOutcome | None, fault: str | None) -> None:
        receipt = ReceiptFrame(
            envelope_id=frame.envelope.envelope_id,
            session_id=frame.envelope.session_id,
            recipient_id=self.agent_id,
            status="ack" if fault is None else "nack",
            outcome=outcome,
            reason=fault or "",
        )
        await self._connection.tell(receipt)


async def _no_handler(_envelope: Envelope) -> None:
    raise NotImplementedError("set a handler with on_envelope")
