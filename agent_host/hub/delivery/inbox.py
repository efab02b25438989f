"""What is on its way to an agent: its inbox over all sessions, and in each session how far it has come."""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict, deque
from itertools import islice
from typing import Protocol, cast

from pydantic_core import from_json, to_json  # noqa: TID251  our own rows

from agent_common.clock import ScheduledCall
from agent_common.protocol.hub import (
    EV_EXPECTATION_VIOLATED,
    INVITE_ANSWERS,
    PRIORITY_RANK,
    Envelope,
    Frame,
    is_protocol_event,
)

from ..agents import Agent
from ..live_session import LiveSession
from ..store import CursorRow
from .ranges import Ranges

MOST_LOADED = 32
"""Most sessions of an agent whose next envelopes are in memory while they wait; those of others stay in the log."""
SMALL = 8 << 10
"""Most characters of a content that stays in memory while its envelope waits or is in flight; the log has larger
ones."""
_VALUE = 16
"""Characters that a value counts besides its text."""
_PROTOCOL = -1
"""The rank of protocol events, before all others."""


class Endpoint(Protocol):
    """The hub's end of a link."""

    @property
    def has_space(self) -> bool:
        """Whether its client keeps up with what is sent. If not, deliveries wait."""
        ...

    def send(self, frame: Frame) -> None:
        """Send a frame. Never waits."""
        ...

    async def drained(self) -> None:
        """Return once there is space, or the link has ended."""
        ...

    def release(self, agent_id: str) -> None:
        """An agent is connected over another link now."""
        ...


class Inbox:
    """What is on its way to one agent."""

    __slots__ = (
        "_order",
        "agent",
        "behind",
        "cursors",
        "endpoint",
        "in_flight",
        "loaded",
        "looked_at",
        "pending",
        "ready",
        "waiting",
    )

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.endpoint: Endpoint | None = None
        """Where the agent is connected; None: nowhere."""
        self.cursors: dict[str, Cursor] = {}
        """By session, for those in memory."""
        self.pending = 0
        """Envelopes that are delivered to it or wait, and are not acknowledged. Protocol events do not count."""
        self.waiting: dict[str, tuple[Cursor, Envelope]] = {}
        """What is pending, oldest first, without its content; only if the agent's rule bounds that."""
        self.looked_at: float | None = None
        """When what is pending was looked at last for what has become too old; monotonic seconds."""
        self.in_flight = 0
        """Envelopes that were sent to it and not acknowledged. Protocol events do not count: an agent that works gets
        invitations all the same."""
        self.ready: list[tuple[int, int, Cursor]] = []
        """A heap of cursors that have something to send."""
        self.loaded: set[Cursor] = set()
        """Those that have envelopes in memory, or read them now."""
        self.behind: OrderedDict[Cursor, None] = OrderedDict()
        """Those that have something to send and may not read it yet, in their order."""
        self._order = itertools.count()

    @property
    def has_space(self) -> bool:
        """Whether one more envelope may be in flight."""
        takes = self.endpoint is None or self.endpoint.has_space
        return takes and self.in_flight < self.agent.rule.inbox.in_flight

    def may_load(self, cursor: Cursor) -> bool:
        """Whether a cursor may have envelopes in memory; if so it counts from now on."""
        if cursor not in self.loaded and len(self.loaded) >= MOST_LOADED:
            return False
        self.loaded.add(cursor)
        return True

    def next_behind(self) -> Cursor | None:
        """Take the cursor that may read next; None if there is none, or too many have envelopes in memory."""
        return self.behind.popitem(last=False)[0] if self.behind and len(self.loaded) < MOST_LOADED else None

    def push_ready(self, cursor: Cursor) -> None:
        """Remember that a cursor has something in its buffer."""
        cursor.is_ready = True
        first = cursor.buffer[0]
        rank = _PROTOCOL if is_protocol_event(first.event_type) else PRIORITY_RANK[first.priority]
        heapq.heappush(self.ready, (rank, next(self._order), cursor))

    def pop_ready(self) -> Cursor | None:
        """Take the cursor that is next; None if what it has must wait."""
        if self.endpoint is None or not self.endpoint.has_space or not self.ready:
            return None
        if self.ready[0][0] != _PROTOCOL and not self.has_space:
            return None
        return heapq.heappop(self.ready)[2]


class Cursor:
    """What was sent, what is acknowledged, and what comes next.

    Everything before `next` that is not in flight is done with; so are the later sequences in `above`."""

    __slots__ = (
        "above",
        "attempts",
        "buffer",
        "carried",
        "in_flight",
        "inbox",
        "is_loading",
        "is_ready",
        "nacked",
        "nacks",
        "next",
        "pending",
        "retry",
        "sent_before",
        "session",
        "stripped",
    )  # fmt: skip

    def __init__(self, inbox: Inbox, session: LiveSession, row: CursorRow | None = None) -> None:
        self.inbox = inbox
        self.session = session
        self.next = (row.acked_through if row is not None else 0) + 1
        """The next sequence to look at."""
        self.above = Ranges(from_json(row.acked_above) if row is not None else ())
        self.in_flight: dict[str, Envelope] = {}
        """Sent and not acknowledged, by id, in order."""
        self.stripped: set[str] = set()
        """Of those in flight, the ones that are kept without their content."""
        self.attempts = row.attempts if row is not None else 0
        """How often the next one was nacked before it was sent again after a break."""
        self.nacks: dict[str, int] = {}
        """How often each of those in flight was nacked, if it was."""
        self.carried = ""
        """The one whose number has those before a break in it."""
        self.nacked: dict[str, float] = {}
        """Of those in flight, the ones that wait for their next delivery, and when it is due; monotonic seconds."""
        self.retry: ScheduledCall | None = None
        """Set while something is nacked and waits: nothing overtakes it."""
        self.buffer: deque[Envelope] = deque()
        """The next envelopes, without gaps from `next`."""
        self.is_loading = False
        """Whether the log is being read for it."""
        self.is_ready = False
        """Whether it waits in its agent's heap."""
        self.sent_before = session.folded.sequence if row is not None else 0
        """What was in the log up to here may have been sent before."""
        self.pending = 0
        """Its part of the agent's inbox."""

    @property
    def acked_through(self) -> int:
        """All up to this sequence is done with."""
        for envelope in self.in_flight.values():
            return envelope.sequence - 1
        return self.next - 1

    def is_for(self, envelope: Envelope) -> bool:
        """Whether the agent is to get an envelope of the session."""
        agent_id = self.inbox.agent.agent_id
        if envelope.sender_id == agent_id or envelope.event_type in INVITE_ANSWERS:
            return False
        if self.is_removed and not (
            envelope.event_type == EV_EXPECTATION_VIOLATED and agent_id in envelope.event_data.get("violators", ())
        ):
            return False
        return envelope.audience is None or agent_id in envelope.audience

    @property
    def is_removed(self) -> bool:
        """Whether the agent was removed from the session: it hears of that, and of nothing else."""
        return self.inbox.agent.agent_id in self.session.folded.info.removed

    @property
    def first_attempts(self) -> int:
        """How often the first one that is not acknowledged was nacked."""
        for name in self.in_flight:
            return self.nacks.get(name, 0)
        return self.attempts

    @property
    def is_done(self) -> bool:
        """Whether the session is over and nothing is left to deliver."""
        session = self.session
        return session.folded.info.is_over and not self.in_flight and self.next > session.folded.sequence

    def start_over(self) -> int:
        """Forget what is in flight, so that it is sent again. Returns how much of it has counted."""
        count = sum(not is_protocol_event(one.event_type) for one in self.in_flight.values())
        if self.retry is not None:
            self.retry.cancel()
            self.retry = None
        first = self.acked_through + 1
        self._add_acked(self.above)
        self.sent_before = max(self.sent_before, self.next - 1)
        self.next = first
        self.attempts = self.first_attempts
        self.carried = ""
        self.nacks.clear()
        self.nacked.clear()
        self.in_flight.clear()
        self.stripped.clear()
        self.buffer.clear()
        self.is_ready = False
        return count

    def to_row(self) -> CursorRow:
        """The row of its present state."""
        first = self.acked_through
        above = Ranges(self.above.pairs())
        self._add_acked(above)
        return CursorRow(
            session_id=self.session.session_id,
            agent_id=self.inbox.agent.agent_id,
            acked_through=first,
            acked_above=to_json(above.pairs()).decode(),
            attempts=self.first_attempts,
            done=self.is_done,
        )

    def _add_acked(self, above: Ranges) -> None:
        """Add what is done with between what is in flight."""
        first = self.acked_through + 1
        for sequence in sorted(envelope.sequence for envelope in self.in_flight.values()):
            above.add(first, sequence - 1)
            first = sequence + 1
        above.add(first, self.next - 1)


def is_too_old(envelope: Envelope, now: int) -> bool:
    """Whether an envelope is not to be delivered any more. `now`: epoch milliseconds."""
    ttl = envelope.ttl_seconds
    return ttl is not None and now >= envelope.created_at + ttl * 1000


def is_small(envelope: Envelope) -> bool:
    """Whether the content of an envelope may stay in memory while others wait with it."""
    left = SMALL - sum(map(len, envelope.audience or ()))
    values = list[object]((envelope.event_data,))
    while values:
        value = values.pop()
        if isinstance(value, str):
            left -= len(value)
        elif isinstance(value, dict):
            fields = cast("dict[str, object]", value)
            left -= _VALUE * len(fields) + sum(map(len, islice(fields, SMALL // _VALUE)))
            values += islice(fields.values(), SMALL // _VALUE)
        elif isinstance(value, list):
            listed = cast("list[object]", value)
            left -= _VALUE * len(listed)
            values += listed[: SMALL // _VALUE]
        if left < 0:
            return False
    return True


def without_content(envelope: Envelope) -> Envelope:
    """What the hub keeps of an envelope while the log alone has all of it."""
    return envelope.model_copy(update={"event_data": {}, "audience": None})
