"""Limit the size and cost of each event in a server's stream, before the package parses it."""

from __future__ import annotations

from ..rate_limit import MESSAGE_LIMIT, UNIT, LimitExceeded, check_nodes

LINE_COST = UNIT // 16
"""Cost of a line besides its bytes; an event costs UNIT. Short lines and events take longer to parse than to send."""


class EventCheck:
    """Checks the events of one stream of UTF-8 with LF, CR LF or CR as line ends."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        """Bytes of the complete lines of the current event."""
        self._after_cr = False

    def feed(self, piece: bytes) -> int:
        """Check a piece of the stream and return its cost in bytes. Raises LimitExceeded if an event is too large."""
        if self._after_cr:
            piece = piece.removeprefix(b"\n")
        self._after_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, rest = piece.split(b"\n")
        if ended:
            ended[0] = bytes(self._line) + ended[0]
            self._line.clear()
        events = 0
        for line in ended:
            if line:
                self._add_line(line)
            else:
                events += 1
                self._end_event()
        self._line += rest
        if self._size + len(self._line) > MESSAGE_LIMIT:
            raise LimitExceeded(f"it sent an event that is larger than the limit of {MESSAGE_LIMIT // 2**20} MiB")
        return len(piece) + LINE_COST * len(ended) + UNIT * events

    def end(self) -> bytes:
        """Check the incomplete event at the end of the stream, which may also be parsed, and return its data. Raises
        LimitExceeded."""
        self._add_line(bytes(self._line))
        return self._end_event()

    def _add_line(self, line: bytes) -> None:
        self._size += len(line)
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value)

    def _end_event(self) -> bytes:
        data = b"\n".join(self._data)
        self._data = []
        self._size = 0
        check_nodes(data)
        return data
