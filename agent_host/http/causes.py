"""What has caused a write, as its request says."""

from __future__ import annotations

import re

from fastapi import Request

from agent_common.protocol import SESSION_HEADER, TASK_HEADER, TRACE_HEADER, Cause

from ..errors import InvalidRequest

MAX_ID = 200
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.{0,200})?")


def cause_of(request: Request) -> Cause:
    """Return the cause that the headers name. Raises InvalidRequest for an id that is none.

    A `traceparent` that cannot be read is left out, as its standard asks: proxies may have added it."""
    trace = _TRACEPARENT.fullmatch(request.headers.get(TRACE_HEADER, ""))
    return Cause(
        session=_id(request, SESSION_HEADER), task=_id(request, TASK_HEADER), trace=trace[1] if trace else None
    )


def _id(request: Request, header: str) -> str | None:
    text = request.headers.get(header)
    if text is not None and not (0 < len(text) <= MAX_ID and text.isprintable()):
        raise InvalidRequest.from_faults([(header, f"must be an id of 1 to {MAX_ID} printable characters")])
    return text
