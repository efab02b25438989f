"""Questions and approvals that wait for a person, in lists and in events (docs/reference/waits.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from ..base import Peer

RequestKind = Literal["question", "approval"]
Position = tuple[int, str]
"""Where a request is in a list: when it began to wait, and a digest that orders those of one moment."""
_LATEST_MS = 253_402_128_000_000
"""The latest time of a row: 30 December 9999, which every clock's time zone can show and every cursor name."""
PAGE_BYTES = 1 << 20
"""A page with more than this ends after the request that exceeded it: the arguments of a call may be long."""
PENDING_CURSOR = r"^[0-9]{1,16}\.[0-9a-f]{0,16}$"


class ListedRequest(Peer):
    """A question or an approval that waits for a person. Times are epoch milliseconds UTC."""

    LATEST: ClassVar[int] = _LATEST_MS
    session_id: str
    """The session as its caller named it; the answer goes to `POST /chat/{session_id}/answer`."""
    message_id: str
    """The user message that the turn answers."""
    user: str
    """The principal of the session, who may answer."""
    sender: str | None = None
    """The member of a group who was asked, if the message named its sender."""
    agent: str
    kind: RequestKind
    id: str
    """The id that the answer names. It is used once in the session; an approval's also stands for the call's
    arguments."""
    code: str | None = None
    """Of an approval: what a message in plain text repeats to answer it, as in `yes K7`."""
    tool_call_id: str
    tool: str
    """The tool that is to be called; `question` for a question."""
    input: dict[str, Any]
    """All arguments of the call; of a question its `questions`."""
    reason: str | None = None
    """Which rule asks for the approval."""
    always: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    """The rules that the answer `always` adds: to the session, or to all sessions of `user` with `agent`."""
    since: int = Field(ge=0, le=_LATEST_MS)
    expires_at: int = Field(ge=0, le=_LATEST_MS)
    """When the turn ends without an answer."""

    @property
    def position(self) -> Position:
        """The place of the request in a list, oldest first."""
        names = "\0".join((self.user, self.session_id, self.id)).encode("utf-8", "surrogatepass")
        return self.since, hashlib.sha256(names).hexdigest()[:16]


class PendingList(Peer):
    """A page of requests, oldest first."""

    pending: list[ListedRequest]
    next: str | None = Field(default=None, exclude_if=lambda cursor: cursor is None)
    """Pass it as `after` to get the next page; absent on the last one."""


class PendingQuery(BaseModel):
    """Which requests to list."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    user: str | None = Field(default=None, min_length=1, max_length=200)
    """Only requests of this user; unset, of the user in `X-Agent-User`, or of all users."""
    limit: int = Field(default=50, ge=1, le=500)
    after: str | None = Field(default=None, pattern=PENDING_CURSOR)


R = TypeVar("R", bound=ListedRequest)


def first_page(requests: Sequence[R], limit: int) -> Sequence[R]:
    """Return the first of the requests that fit into a page, at least one unless there are none."""
    size = 0
    for count, request in enumerate(requests[:limit], 1):
        size += len(request.model_dump_json())
        if size > PAGE_BYTES:
            return requests[:count]
    return requests[:limit]


def format_position(position: Position) -> str:
    """Return a place in a list as text, for `after` parameters."""
    return f"{position[0]}.{position[1]}"


def parse_position(text: str) -> Position:
    """Parse a text of the shape PENDING_CURSOR. An empty digest is the place before all requests of its moment."""
    since, _, digest = text.partition(".")
    return int(since), digest
