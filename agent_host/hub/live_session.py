"""A session in memory."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  our own rows

from agent_common.protocol.hub import (
    EV_SESSION_CLOSED,
    EV_SESSION_EXPIRED,
    EV_SESSION_OPENED,
    Envelope,
    FoldedSession,
    NetworkError,
    SessionType,
    dump_session,
    expectations_of,
    overdue_times,
)

from .store import Row, SessionRow, Submission

OnPosted = Callable[[str | NetworkError], None]
"""Called with the id of the envelope once it is durable, or with why it is refused."""
DECIDING = frozenset({EV_SESSION_OPENED, EV_SESSION_CLOSED, EV_SESSION_EXPIRED})
"""What makes a session open, or over."""
NOT_STORED = "not_stored"
"""Why a session is over whose opening could not be stored: there is none."""
_RECENT_KEYS = 256
_RECENT_BYTES = 4 << 20
"""Most bytes of the posts whose keys are remembered. The log knows the keys of all others."""


class Post:
    """An envelope on its way into the log."""

    __slots__ = ("also", "displaces", "dropped", "envelope", "on_posted", "recipients", "size", "submission")

    def __init__(self, envelope: Envelope, on_posted: OnPosted | None, also: Sequence[Row] = ()) -> None:
        self.envelope = envelope
        self.also = also
        """`also`: rows that are written with it or not at all."""
        self.on_posted: list[OnPosted] | None = [on_posted] if on_posted is not None else []
        """None once they were called."""
        self.recipients: list[str] = []
        """Ids of the agents in whose inboxes it is counted."""
        self.dropped: list[str] = []
        """Ids of the agents for whom it was dropped before it was durable."""
        self.displaces: list[str] = []
        """Ids of the agents whose full inboxes drop their oldest for it, once it is durable."""
        self.submission: Submission | None = None
        self.size = 0
        """Characters of the envelope as JSON, once it is appended."""

    def then(self, call: OnPosted) -> None:
        """Call back like those who wait already."""
        if self.on_posted is None:
            call(self.envelope.envelope_id)
        else:
            self.on_posted.append(call)

    def finish(self, result: str | NetworkError) -> None:
        """Tell those who wait."""
        waiting = self.on_posted or ()
        self.on_posted = None
        for call in waiting:
            call(result)


async def posted(post: Callable[[OnPosted], None]) -> str:
    """Post something, and return the id of its envelope once that is durable. Raises NetworkError."""
    future: asyncio.Future[str | NetworkError] = asyncio.get_running_loop().create_future()

    def on_posted(result: str | NetworkError) -> None:
        if not future.done():
            future.set_result(result)

    post(on_posted)
    result = await future
    if isinstance(result, NetworkError):
        raise result
    return result


class LiveSession:
    """A session, folded up to its last envelope, whether that is durable or not."""

    __slots__ = (
        "committed", "due_at", "expectations", "fired", "folded", "is_loading", "keys", "keys_size", "known",
        "on_decided", "queue", "session_id", "shortest_ms", "snapshot_sequence", "type", "uncommitted",
    )  # fmt: skip

    def __init__(self, session_type: SessionType[Any], folded: FoldedSession, fired: set[str]) -> None:
        self.session_id = folded.info.session_id
        self.type = session_type
        self.folded = folded
        self.committed = folded.sequence
        """The last sequence that is durable."""
        self.known = folded.sequence
        """The last sequence that the log is known to have; more than that is read from it."""
        self.snapshot_sequence = folded.sequence
        self.expectations = expectations_of(session_type, folded.info)
        self.shortest_ms = min((round(one.seconds * 1000) for one in self.expectations), default=None)
        self.fired = fired
        """Keys of violated expectations that were acted upon."""
        self.due_at: int | None = None
        """When the hub looks at it again; None: it has not asked for that."""
        self.uncommitted: deque[Post] = deque()
        self.keys: OrderedDict[tuple[str, str], Post] = OrderedDict()
        """The last posts with an idempotency key."""
        self.keys_size = 0
        self.is_loading = False
        """Whether it is being read from its log again; posts wait in the queue."""
        self.queue: deque[Callable[[], None]] = deque()
        self.on_decided: list[Callable[[], None]] = []
        """Called once when it is open, or over."""

    async def wait_decided(self) -> None:
        """Return once it is open, or over, and that is durable. The hub closes it if nobody answers in time."""
        while self.is_loading or not self._is_decided:
            changed = asyncio.Event()
            (self.queue if self.is_loading else self.on_decided).append(changed.set)
            await changed.wait()

    @property
    def _is_decided(self) -> bool:
        kinds = {post.envelope.event_type for post in self.uncommitted}
        return self.folded.info.state != "pending" and DECIDING.isdisjoint(kinds)

    def remember_key(self, post: Post) -> None:
        """Remember a post by its idempotency key."""
        key = post.envelope.idempotency_key
        if key is not None:
            self.keys[post.envelope.sender_id, key] = post
            self.keys_size += post.size
            while len(self.keys) > _RECENT_KEYS or (self.keys_size > _RECENT_BYTES and len(self.keys) > 1):
                self.keys_size -= self.keys.popitem(last=False)[1].size

    def add_fired(self, key: str) -> None:
        """Remember that a violated expectation is acted upon. Those that cannot come again are forgotten."""
        self.fired &= {one.key for one in overdue_times(self.type, self.folded, self.expectations)}
        self.fired.add(key)

    def invite_ms(self, default: int) -> int:
        """For how many milliseconds it waits for those who are invited: longer than all do if it expects so."""
        expected = (round(one.seconds * 1000) for one in self.expectations if one.name == "acks_within")
        return max([default, *expected])

    def next_due(self, invite_ms: int) -> int | None:
        """When the hub must act, if nothing happens; epoch milliseconds."""
        info = self.folded.info
        if info.is_over:
            return None
        times = [
            one.due_at for one in overdue_times(self.type, self.folded, self.expectations) if one.key not in self.fired
        ]
        if info.expires_at is not None:
            times.append(info.expires_at)
        if info.state == "pending":
            times.append(info.created_at + self.invite_ms(invite_ms))
        return min(times, default=None)

    def to_row(self, invite_ms: int) -> SessionRow:
        """A snapshot of its present state."""
        info = self.folded.info
        return SessionRow(
            session_id=self.session_id,
            type=info.type,
            creator_id=info.creator_id,
            state=info.state,
            snapshot=dump_session(self.type, self.folded),
            snapshot_sequence=self.folded.sequence,
            fired=to_json(sorted(self.fired)).decode(),
            due_at=self.next_due(invite_ms),
            created_at=info.created_at,
            closed_at=info.closed_at,
        )


def read_fired(text: str) -> set[str]:
    """The violated expectations of a stored session."""
    return set(from_json(text))
