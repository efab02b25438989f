"""What the crowd has sent and what it was told: the promises that the record is held to."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from .model import Orders

ROOM_SIZE = 40
"""Messages that a session gets before another one takes its place."""


@dataclass(slots=True)
class Sent:
    """A message or a task, and what its sender knows of it."""

    orders: Orders
    body: dict[str, Any]
    room: str
    """The session as its callers name it; empty for a task."""
    first_sent: float = field(default_factory=time.time)
    acked: float | None = None
    """When somebody first said that it is on disk."""
    names: dict[str, Any] | None = None
    """How it was called in that answer."""
    stopped: bool = False
    """Somebody asked to cancel it, or to abort what its session was at."""
    refused: bool = False
    """The server said that it will not take it."""
    withdrawn: float | None = None
    """When the server said that it left the queue and will not run."""
    told: dict[str, Any] | None = None
    """Its end, as the server once told it."""

    @property
    def in_copy(self) -> bool:
        """Sent to a fork, where others have spoken before."""
        return self.room.startswith("ses_")

    @property
    def id(self) -> str:
        return self.orders.owner


@dataclass(frozen=True, slots=True)
class Fork:
    """A copy of a session that the server said it made."""

    id: str
    parent: str
    """As the caller named it."""


class Ledger:
    """Shared by all clients and the checks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tasks: dict[str, Sent] = {}
        self.messages: dict[str, Sent] = {}
        self.forks: list[Fork] = []
        self.streams: list[tuple[Sent, str]] = []
        """Texts of streams that were read to their end."""
        self.faults: list[str] = []
        self.aborts = 0
        """Turns that somebody was told he has stopped."""
        self.calls = 0
        """Requests that were answered."""
        self.repeated = 0
        """Requests that were sent again because nobody answered."""
        self._rooms: dict[int, tuple[int, int]] = {}

    def room(self, number: int) -> str:
        """The session that goes by this number now, for one more message."""
        with self._lock:
            epoch, count = self._rooms.get(number, (0, 0))
            if count >= ROOM_SIZE:
                epoch, count = epoch + 1, 0
            self._rooms[number] = epoch, count + 1
            return f"room-{number}-{epoch}"

    def look_at(self, number: int) -> str:
        """The same without a message."""
        return f"room-{number}-{self._rooms.get(number, (0, 0))[0]}"

    def task(self, orders: Orders, body: dict[str, Any]) -> Sent:
        with self._lock:
            sent = self.tasks[orders.owner] = Sent(orders, body, "")
        return sent

    def message(self, orders: Orders, body: dict[str, Any]) -> Sent:
        with self._lock:
            sent = self.messages[orders.owner] = Sent(orders, body, body["session_id"])
        return sent

    def acknowledge(self, sent: Sent, names: dict[str, Any]) -> None:
        """Somebody was told that it is on disk; whoever is told again must be told the same."""
        with self._lock:
            if sent.acked is None:
                sent.acked, sent.names = time.time(), names
        if names != sent.names:
            self.fault(f"{sent.id} was called {sent.names} and later {names}")

    def end(self, sent: Sent, told: dict[str, Any]) -> None:
        """Somebody was told how it ended; that never changes."""
        with self._lock:
            if sent.told is None:
                sent.told = told
        if told != sent.told:
            self.fault(f"the end of {sent.id} was told as {sent.told} and later as {told}")

    @contextmanager
    def stopping(self, room: str) -> Generator[None]:
        """Whatever has come to this session before the block is over may end as cancelled."""
        try:
            yield
        finally:
            with self._lock:
                for sent in self.messages.values():
                    sent.stopped = sent.stopped or sent.room == room

    def frozen(self) -> Ledger:
        """What was promised up to now: later promises may be younger than the record that is looked at."""
        copy = Ledger()
        with self._lock:
            copy.tasks = {name: replace(sent) for name, sent in self.tasks.items()}
            copy.messages = {name: replace(sent) for name, sent in self.messages.items()}
            copy.forks = list(self.forks)
        return copy

    def fault(self, text: str) -> None:
        with self._lock:
            self.faults.append(text)
