"""Faults of Discord and of the network: those that a test asks for, and those that happen by themselves."""

from __future__ import annotations

import random
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

How = Literal["429", "5xx", "cut", "cut-after", "5xx-after", "hang", "hang-after", "slow"]
EventFault = Literal["twice", "late"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a request.

    | how | what happens |
    |---|---|
    | `429` | refused with `retry_after` = `seconds` |
    | `5xx` | `status`, and nothing was done |
    | `5xx-after` | `status`, although it was done |
    | `cut` | the connection is lost before anything was done |
    | `cut-after` | the connection is lost after it was done, before the answer |
    | `hang` `hang-after` | no answer for `seconds` or until `Faults.release`, then the connection is lost |
    | `slow` | the answer comes after `seconds` |
    """

    how: How
    seconds: float = 0.2
    status: int = 502
    everywhere: bool = False
    """Of a 429: it is the limit of all routes."""

    @property
    def before(self) -> bool:
        """Whether the request fails before it is done."""
        return self.how in {"cut", "5xx", "hang"}

    @property
    def after(self) -> bool:
        """Whether it fails after it was done."""
        return self.how in {"cut-after", "5xx-after", "hang-after"}


@dataclass(frozen=True, slots=True)
class RandomFaults:
    """Faults that happen by themselves, the same for the same seed. Most fields are probabilities."""

    seed: int = 0
    limited: float = 0.0
    failed: float = 0.0
    """5xx, before or after it was done."""
    cut: float = 0.0
    """The connection is lost, before or after it was done."""
    slow: float = 0.0
    seconds: float = 0.2
    """How long: a wait that a 429 asks for, a slow answer."""
    twice: float = 0.0
    """An event comes twice."""
    late: float = 0.0
    """An event comes after the next one."""
    gateway_cut: float = 0.0
    """The connection of the gateway is lost instead of an event, which comes when the bot resumes."""


class Faults:
    """Faults to come. All methods may be called from any thread."""

    def __init__(self, faults: RandomFaults | None = None) -> None:
        self.random = faults or RandomFaults()
        """Those that happen by themselves; may be replaced at any time."""
        self.heartbeats_acknowledged = True
        """False: the gateway stops acknowledging heartbeats."""
        self.late_seconds = 0.5
        """How long an event is held back for at most."""
        self.released: Callable[[], None] = lambda: None
        """What `release` calls; set while the server runs."""
        self._generator = random.Random(self.random.seed)  # noqa: S311 - faults that can be repeated
        self._next: deque[tuple[re.Pattern[str], Fault]] = deque()
        self._events: deque[EventFault] = deque()
        self._lock = threading.Lock()

    def next(self, fault: Fault, at: str = "", times: int = 1) -> None:
        """Have the next requests that match `at` fail: a regular expression, searched in `METHOD /path`.

        A download is `GET /attachments/...`, a connection to the gateway `CONNECT gateway`.
        """
        with self._lock:
            self._next.extend([(re.compile(at), fault)] * times)

    def next_event(self, fault: EventFault, times: int = 1) -> None:
        """Have the next events come twice, or after the one that follows."""
        with self._lock:
            self._events.extend(fault for _ in range(times))

    def release(self) -> None:
        """End what hangs now: the connections are lost."""
        self.released()

    def clear(self) -> None:
        """Back to normal."""
        with self._lock:
            self._next.clear()
            self._events.clear()
            self.random = RandomFaults()
            self.heartbeats_acknowledged = True

    def of_request(self, method: str, path: str, *, at_random: bool = True) -> Fault | None:
        """What happens to this request."""
        line = f"{method} {path}"
        with self._lock:
            for entry in self._next:
                if entry[0].search(line):
                    self._next.remove(entry)
                    return entry[1]
            return self._random_fault() if at_random else None

    def _random_fault(self) -> Fault | None:
        given = self.random
        after = self._generator.random() < 0.5
        number = self._generator.random()
        chances: list[tuple[float, Fault]] = [
            (given.limited, Fault("429", given.seconds)),
            (given.failed, Fault("5xx-after" if after else "5xx", status=502)),
            (given.cut, Fault("cut-after" if after else "cut")),
            (given.slow, Fault("slow", given.seconds)),
        ]
        for chance, fault in chances:
            if number < chance:
                return fault
            number -= chance
        return None

    def of_event(self) -> EventFault | None:
        """What happens to this event."""
        with self._lock:
            if self._events:
                return self._events.popleft()
            number = self._generator.random()
            if number < self.random.twice:
                return "twice"
            return "late" if number < self.random.twice + self.random.late else None

    def cuts_gateway(self) -> bool:
        """Whether the connection of the gateway is lost now."""
        with self._lock:
            return self._generator.random() < self.random.gateway_cut
