"""Write to clients of streams without waking up the tasks that serve them, which costs more than the write."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from .header_limits import CONNECTION_KEY, BoundedHttp

Push = Callable[[bytes], bool]
"""Writes a piece of an answer at once. False: nothing was written, because the client is slow or gone, or has not got
the head yet; then the task has to send it."""


def never_push(_piece: bytes) -> bool:
    """Leave each piece to the task."""
    return False


def pusher(scope: MutableMapping[str, Any]) -> Push:
    """Return what writes pieces of the request's answer between those that its task sends.

    The answer must be a stream whose length is not known. The task must have sent all that came before, and be waiting
    for something else than to send."""
    connection = scope.get("state", {}).get(CONNECTION_KEY)
    cycle: Any = connection.cycle if isinstance(connection, BoundedHttp) else None
    if cycle is None or cycle.scope is not scope:  # another request follows on the connection already
        return never_push

    def push(piece: bytes) -> bool:
        ended = cycle.response_complete or cycle.disconnected
        if not cycle.response_started or not cycle.chunked_encoding or ended or cycle.flow.write_paused:
            return False
        cycle.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        return True

    return push
