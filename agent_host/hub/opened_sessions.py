"""The open sessions that an agent has created, and how many bytes each of them takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json

from agent_common.protocol.hub import FoldedSession, SessionType

_SESSION_BYTES = 2048
"""What a session without knobs, labels and variables counts."""


class OpenedSessions:
    """Sizes by session id. A session that is counted again replaces its earlier size."""

    __slots__ = ("_sizes", "total_bytes")

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self.total_bytes = 0

    def __len__(self) -> int:
        return len(self._sizes)

    def put(self, session_id: str, size: int) -> None:
        """Count a session that is open."""
        self.total_bytes = self.total_with(session_id, size)
        self._sizes[session_id] = size

    def remove(self, session_id: str) -> None:
        """Count a session no more."""
        self.total_bytes -= self._sizes.pop(session_id, 0)

    def replace(self, sizes: Mapping[str, int]) -> None:
        """Count these sessions alone. A size that is known stays if it is larger: what is stored may be older."""
        self._sizes = {one: max(size, self._sizes.get(one, 0)) for one, size in sizes.items()}
        self.total_bytes = sum(self._sizes.values())

    def has_grown(self, session_id: str, size: int) -> bool:
        """Whether this is more than the session counts so far."""
        return size > self._sizes.get(session_id, 0)

    def total_with(self, session_id: str, size: int) -> int:
        """The bytes of all sessions if this one takes so many."""
        return self.total_bytes - self._sizes.get(session_id, 0) + size


def session_bytes(session_type: SessionType[Any], folded: FoldedSession) -> int:
    """Return the bytes that an open session counts. Its envelopes do not count."""
    info = folded.info
    return _SESSION_BYTES + len(to_json([info.knobs, info.labels, session_type.variables(folded.state)]))
