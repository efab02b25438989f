"""The tool calls of one step: parsed, run side by side up to a limit, answered in the order they finish."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Set
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json

from ..context import Call, Step, error_envelope
from ..ports import HumanWait, ToolCall, ToolContext, ToolResult, Toolset
from ..protocol import chunks as c
from ..protocol import is_object
from .guard import RepeatGuard
from .pen import Pen

CANCEL_SECONDS = 2.0
"""Longest wait for a tool that was told to stop."""
_BROKE_OFF = ToolResult("error", error_text="the tool broke off: something inside of it was cancelled")


@dataclass(frozen=True, slots=True)
class Runner:
    """Runs calls with one turn's tools. A call that needs a person first stays open."""

    tools: Toolset
    guard: RepeatGuard
    pen: Pen
    context: ToolContext
    allowed: Set[str]
    """Tools that a person has allowed for the whole session."""
    parallel: int

    async def run(self, step: Step, calls: list[Call]) -> AsyncIterator[c.Chunk]:
        """Runs `calls` (some of `step.calls`) and fills in their outputs."""
        slots = asyncio.Semaphore(self.parallel)
        pending = {asyncio.create_task(self._one(call, slots)): call for call in calls}
        try:
            while pending:
                done, _ = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in pending if task in done]:
                    call = pending.pop(task)
                    result = _BROKE_OFF if task.cancelled() else task.result()
                    for chunk in (
                        self._waiting(call, result) if isinstance(result, HumanWait) else self._answer(call, result)
                    ):
                        yield chunk
        finally:
            await _stop(list(pending))

    async def _one(self, call: Call, slots: asyncio.Semaphore) -> ToolResult | HumanWait:
        async with slots:
            approved = call.approved or call.name in self.allowed
            return await self.tools.run(
                call.name, call.input, replace(self.context, call_id=call.id, approved=approved)
            )

    def _waiting(self, call: Call, wait: HumanWait) -> Iterator[c.Chunk]:
        return self.pen.approval_wanted(call.id) if wait.kind == "approval" else iter(())

    def _answer(self, call: Call, result: ToolResult) -> list[c.Chunk]:
        result = replace(result, metadata=dict(result.metadata))
        if warning := self.guard.seen(call.name, call.input, result):
            result.metadata["warning"] = warning
        if result.type == "output":
            call.output = result.envelope()
            return list(self.pen.call_done(call.id, call.output))
        why = result.error_text or "the tool failed"
        call.output = error_envelope(why, result.metadata)
        return list(self.pen.call_failed(call.id, why, result.metadata))


def parse(call: ToolCall, *, cut_off: bool) -> dict[str, Any] | str:
    """The arguments of a call, or what is wrong with them, in words for the model."""
    if not call.arguments.strip():
        return {}
    try:
        arguments: Any = from_json(call.arguments, allow_inf_nan=False)
    except ValueError as error:
        if cut_off:
            return "the arguments were cut off by the output limit: send less in one call"
        return f"the arguments are not valid JSON ({error}): send one JSON object"
    if not is_object(arguments):
        return f"the arguments must be one JSON object, not {type(arguments).__name__}"
    return arguments


async def _stop(tasks: list[asyncio.Task[ToolResult | HumanWait]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
