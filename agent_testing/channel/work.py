"""The work that the small agent can do, within the bounds of its request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

from agent_common.protocol.work import ResultStatus, WorkBounds, WorkRequest, WorkResult, WorkUsage

from .frames import now

_SLEEP = re.compile(r"sleep:([0-9.]{1,6})")
_REPORT_SECONDS = 0.1


def result_of(request: WorkRequest, status: ResultStatus, **more: str | None) -> WorkResult:
    return WorkResult(
        request_id=request.request_id, status=status, completed_at=now(), audit_ref=request.audit_ref, **more
    )


async def carry_out(request: WorkRequest, answer: str, report: Callable[[WorkUsage], None]) -> WorkResult:
    """Answer at once, to `sleep:SECONDS` after that time, to `tool` after one call of a tool. `report` is called with
    the usage so far, every tenth of a second."""
    bounds = request.bounds or WorkBounds()
    tokens = len(request.content.split()) + 1
    calls = 1 if request.content == "tool" else 0
    for name, most, used in (("tokens", bounds.max_tokens, tokens), ("tool_calls", bounds.max_tool_calls, calls)):
        if most is not None and used > most:
            return result_of(request, "yielded", error=f"budget_exhausted: max_{name}")
    usage = WorkUsage(tokens=tokens, tool_calls=calls)
    report(usage)
    loop = asyncio.get_running_loop()
    found = _SLEEP.fullmatch(request.content)
    until = loop.time() + (float(found[1]) if found else 0.0)
    try:
        async with asyncio.timeout(bounds.max_duration_seconds):
            while (left := until - loop.time()) > 0:
                await asyncio.sleep(min(left, _REPORT_SECONDS))
                report(usage)
    except TimeoutError:
        return result_of(request, "yielded", error="deadline_exceeded: max_duration_seconds")
    return result_of(request, "completed", content=answer)
