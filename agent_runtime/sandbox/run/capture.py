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


def spill_fault(error: OSError) -> str:
    """Return the message for a model whose output could not be kept whole."""
    return f"the whole output could not be kept in a file: {error.strerror or error}"


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
        self.fault: str | None = None
        """Why there is no file, although one was wanted."""

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
        """Take a piece of output. A disk that is full or cannot be written costs the file, and not the command."""
        stream.feed(chunk)
        if self._open_spill is None:
            return
        self._before_spill.append(chunk)
        if not self.truncated:
            return
        try:
            if self._file is None:
                self._file = self._open_spill()
                self.output_path = self._file.name
            self._spill(self._file, b"".join(self._before_spill))
        except OSError as error:
            self._give_up_file(error)
        self._before_spill.clear()

    def _spill(self, file: BinaryIO, data: bytes) -> None:
        kept = data[: SPILL_LIMIT - self._spilled]
        self._spilled += len(kept)
        file.write(kept)

    def _give_up_file(self, error: OSError) -> None:
        self._open_spill = self.output_path = None
        self.fault = spill_fault(error)

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
            try:
                self._file.close()
            except OSError as error:  # its last bytes are written only now
                self._give_up_file(error)
