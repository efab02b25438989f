"""`agent doctor`: what is wrong, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ..errors import DONE, FAILED
from ..run import Invocation, command

_MARKS = {"ok": "ok", "warning": "WARN", "error": "FAIL"}


@command
async def doctor(
    call: Invocation,
    *,
    no_model: Annotated[bool, typer.Option("--no-model", help="Do not have the model answer a message.")] = False,
) -> int:
    """Find what is wrong here and at the host, and say the fix.

    Looks at this machine, the host and its agents, and exits with 1 if something is wrong.
    """
    from ..doctor import examine

    findings = await examine(call.choice, call_model=not no_model)
    well = all(one.state == "ok" for one in findings)
    if call.output.json:
        call.output.document({"ok": well, "findings": [asdict(one) for one in findings]})
        return DONE if well else FAILED
    width = max(len(one.name) for one in findings)
    for one in findings:
        call.output.text(f"{_MARKS[one.state]:<4}  {one.name:<{width}}  {one.what}\n")
        if one.fix:
            call.output.line(f"{'':<4}  {'':<{width}}  fix: {one.fix}")
    return DONE if well else FAILED
