"""Read the server-sent events of an agent, which is not trusted: bounded in memory, checked field by field."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_common.event_ring import EVENTS_LOST, MAX_EVENT_BYTES, parse_event_id
from agent_common.json_reader import JsonLimits, JsonRefused, read_json

_LIMITS = JsonLimits(MAX_EVENT_BYTES, max_values=20_000)
FOR_ALL_USERS = frozenset({"skills-changed", "channel-changed", "events-lost"})


class SentEvent(NamedTuple):
    """An event as it came, or only a position in the stream."""

    position: int | None
    """Its id, which takes the stream up again; None if it has none."""
    data: bytes
    """Empty if only the position was told, or if it was too long."""
    too_long: bool


class AgentEvent(BaseModel):
    """An event of an agent, of a kind that agents have: none can pass as an event of the host or of another agent."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: Literal[
        "turn-started",
        "turn-finished",
        "approval-requested",
        "approval-resolved",
        "notice",
        "skills-changed",
        "channel-changed",
        "events-lost",
    ]
    user: str | None = Field(default=None, min_length=1, max_length=200)

    @property
    def facts(self) -> dict[str, Any]:
        """All its fields but those that the host writes itself, and the position in the agent's own stream."""
        if self.type == EVENTS_LOST:
            return {}
        return {name: value for name, value in self if name not in ("type", "at", "workspace") and value is not None}


def parse_event(data: bytes) -> AgentEvent | None:
    """Return the event, or None if no agent of ours would send it."""
    try:
        event = AgentEvent.model_validate(read_json(data, _LIMITS))
    except (JsonRefused, ValidationError):
        return None
    known = event.type in FOR_ALL_USERS
    return event if known != (event.user is not None) else None


class EventReader:
    """Splits one stream into events: `feed` it what comes."""

    def __init__(self) -> None:
        self._rest = b""
        self._begin()

    def _begin(self) -> None:
        self._id: int | None = None
        self._data: list[bytes] = []
        self._size = 0
        self._too_long = False

    def feed(self, received: bytes) -> Iterator[SentEvent]:
        """Yield the events that are complete now."""
        lines = (self._rest + received).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if line.rstrip(b"\r"):
                self._take(line.rstrip(b"\r"))
                continue
            sent = SentEvent(self._id, b"\n".join(self._data), self._too_long)
            self._begin()
            yield sent
        if len(self._rest) > MAX_EVENT_BYTES:
            self._rest = b":"  # the rest of the line is skipped as a comment
            self._too_long = True

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            self._id = parse_event_id(value.decode("ascii", "replace"))
        elif name == b"data":
            self._size += len(value) + 1  # a line without content takes memory too
            if self._size > MAX_EVENT_BYTES:
                self._too_long = True
                self._data.clear()
            elif not self._too_long:
                self._data.append(value)
