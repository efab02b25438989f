"""Keep a command's output in bounded memory: all of it if it is short, else its beginning and its end.

The whole output, up to a limit, goes to a file for later inspection.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

OUTPUT_LIMIT = 200 * 1024
"""Maximum bytes of both streams together in a result."""
SPILL_LIMIT = 10 * 1024 * 1024
"""Maximum bytes of output in the file; the rest is only counted."""

OpenSpill = Callable[[], BinaryIO]


@dataclass(slots=True)
class CapturedStream:
    """The first and the last `limit` bytes of one stream."""

    limit: int
    total: int = 0
    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)

    def feed(self, chunk: bytes) -> None:
        self.total += len(chunk)
        remaining = self.limit - len(self.head)
        self.head += chunk[:remaining]
        self.tail += chunk[remaining:]
        # Cut in large steps, because cutting at every chunk would copy the tail each time.
        if len(self.tail) > 2 * self.limit:
            del self.tail[: -self.limit]

    def text(self, share: int) -> str:
        """Return the text if it fits into `share` bytes, or else half a share from each end with a line between
        them."""
        if self.total <= share:
            return (self.head + self.tail).decode(errors="replace")
        half = share // 2
        head = bytes(self.head[:half]).decode(errors="ignore")
        tail = bytes((self.head + self.tail)[-(share - half) :]).decode(errors="ignore")
        return f"{head}\n[... {self.total - share} bytes left out ...]\n{tail}"


class Capture:
    """The output streams of one command, and the file for the rest. The owner calls `close`."""

    def __init__(self, limit: int = OUTPUT_LIMIT, spill: OpenSpill | None = None) -> None:
        self.stdout = CapturedStream(limit)
        self.stderr = CapturedStream(limit)
        self._limit = limit
        self._open_spill = spill
        self._before_spill: list[bytes] = []
        self._file: BinaryIO | None = None
        self._spilled = 0
        self.output_path: str | None = None

    @property
    def total(self) -> int:
        return self.stdout.total + self.stderr.total

    @property
    def truncated(self) -> bool:
        return self.total > self._limit

    @property
    def full(self) -> bool:
        """Whether no further output is kept."""
        return self.total >= SPILL_LIMIT

    def feed(self, stream: CapturedStream, chunk: bytes) -> None:
        stream.feed(chunk)
        if self._open_spill is None:
            return
        if not self.truncated:
            self._before_spill.append(chunk)
            return
        if self._file is None:
            self._file = self._open_spill()
            self.output_path = self._file.name
            self._spill(b"".join(self._before_spill))
            self._before_spill.clear()
        self._spill(chunk)

    def _spill(self, data: bytes) -> None:
        if self._file is not None:
            kept = data[: SPILL_LIMIT - self._spilled]
            self._spilled += len(kept)
            self._file.write(kept)

    def texts(self) -> tuple[str, str]:
        """Return stdout and stderr, within the limit together: a short one is complete, the other one gets the rest."""
        half = self._limit // 2
        if self.stdout.total <= half:
            return self.stdout.text(half), self.stderr.text(self._limit - self.stdout.total)
        if self.stderr.total <= half:
            return self.stdout.text(self._limit - self.stderr.total), self.stderr.text(half)
        return self.stdout.text(half), self.stderr.text(half)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
