"""Share limited resources (descriptors, connections, slots) so that one holder cannot use up those of others."""

from __future__ import annotations

import asyncio
import resource
from collections import OrderedDict
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

_MAX_FILES = 1 << 16
"""No more are needed, and some child processes close every descriptor up to the limit that they inherit."""


def raise_file_limit() -> int:
    """Raise the soft limit of open files to the hard one, at most 65,536. Returns the limit that is now in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _MAX_FILES if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted


def fits_share(free: int, held: int, slots: int = 1) -> bool:
    """Return whether a holder of `held` slots may have more of the free ones."""
    return free - slots >= held + slots - 1


def fair_share(counts: Mapping[Any, int], most: int) -> int:
    """Return how much each holder may keep so that all together keep at most that much: what holders of little leave
    over is for the others."""
    left = most
    for number, count in enumerate(sorted(counts.values())):
        share = left // (len(counts) - number)
        if count > share:
            return share
        left -= count
    return most


class ShareCounter:
    """Slots that holders share. A holder may have at most as many as are free, so a single one leaves half of them."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._held: dict[str, int] = {}

    def acquire(self, holder: str, slots: int = 1) -> bool:
        """Take slots. Returns False if the holder would have more than its share. The holder `""`, which is not a valid
        name, may have all."""
        if not self.fits(holder, slots):
            return False
        self.take(holder, slots)
        return True

    @property
    def free(self) -> int:
        return self._free

    def held(self, holder: str) -> int:
        return self._held.get(holder, 0)

    def fits(self, holder: str, slots: int = 1) -> bool:
        """Return whether the holder may have more slots."""
        return fits_share(self._free, self.held(holder), slots) if holder else self._free >= slots

    def take(self, holder: str, slots: int = 1) -> None:
        """Take slots, whether or not the holder may have them."""
        self._free -= slots
        held = self.held(holder) + slots
        if held:
            self._held[holder] = held
        else:
            self._held.pop(holder, None)

    def release(self, holder: str, slots: int = 1) -> None:
        """Free slots of the holder."""
        self.take(holder, -slots)

    @contextmanager
    def hold(self, holder: str, slots: int = 1) -> Generator[bool]:
        """Hold slots during the block. Yields False if the holder did not get them."""
        got = self.acquire(holder, slots)
        try:
            yield got
        finally:
            if got:
                self.release(holder, slots)


class TrackedConnection(Protocol):
    """A connection that a `ConnectionLimit` can count and abort."""

    transport: asyncio.Transport


class ConnectionLimit:
    """Limits the connections of a server. A connection is unidentified until a request on it has been authorised.

    Unidentified connections may use all free slots; if none is free, the oldest of them is closed for a new one.
    Identified connections share at most seven eighths of the slots and are never closed for others.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._unidentified: OrderedDict[TrackedConnection, None] = OrderedDict()
        self._identified: dict[TrackedConnection, str] = {}
        self._tokens: dict[TrackedConnection, str] = {}
        """The id of the token of the latest request on a connection."""
        self._shares = ShareCounter(slots - max(1, slots // 8))

    def __len__(self) -> int:
        return len(self._unidentified) + len(self._identified)

    def add(self, connection: TrackedConnection) -> None:
        """Count a new connection."""
        if self._unidentified and len(self) >= self._slots:
            oldest, _ = self._unidentified.popitem(last=False)
            oldest.transport.abort()
        self._unidentified[connection] = None

    def identify(self, connection: TrackedConnection, holder: str, token_id: str = "") -> bool:
        """Count the connection as the holder's. Returns False if the holder has too many connections.

        `token_id`: with which of the holder's tokens the request came that is answered on it now."""
        before = self._identified.get(connection)
        if before == holder:
            self._tokens[connection] = token_id
            return True
        if not self._shares.acquire(holder):
            return False
        if before is not None:
            self._shares.release(before)
        elif connection in self._unidentified:
            del self._unidentified[connection]
        else:  # it has been closed since
            self._shares.release(holder)
            return True
        self._identified[connection] = holder
        self._tokens[connection] = token_id
        return True

    def disconnect(self, holder: str, token_id: str | None = None) -> None:
        """Abort all connections of the holder; with `token_id` only those whose latest request had that token."""
        for connection in [one for one, known in self._identified.items() if known == holder]:
            if token_id is None or self._tokens[connection] == token_id:
                connection.transport.abort()

    def remove(self, connection: TrackedConnection) -> None:
        """Forget a connection that has ended."""
        self._unidentified.pop(connection, None)
        holder = self._identified.pop(connection, None)
        self._tokens.pop(connection, None)
        if holder is not None:
            self._shares.release(holder)
