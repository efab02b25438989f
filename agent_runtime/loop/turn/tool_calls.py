"""Run the tool calls of one step in parallel, and yield their results in the order in which they finish."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace
from typing import Any

from agent_common.completions import mend_arguments
from agent_common.json_reader import JsonLimits, JsonRefused, read_json_async
from agent_common.protocol import Usage, is_object
from agent_common.protocol import chunks as c

from ...context import Step, ToolCallRecord, error_envelope
from ...ports import HumanRequest, ToolCall, ToolResult
from ...sessions import approval_id
from ..core.turn_state import Turn
from ..limits.egress_meter import TurnEgress
from ..limits.model_meter import CallMeter
from .chunk_writer import ChunkWriter
from .deps import TurnDeps
from .repeat_guard import RepeatGuard
from .resume_state import EGRESS_KEY, MODEL_USAGE_KEY

CANCEL_SECONDS = 2.0
"""Maximum seconds to wait for a cancelled tool."""
SHOWN_CHARACTERS = 80
"""Characters of invalid arguments that are quoted in the error."""
CUT_OFF = "the arguments were cut off by the output limit: send less in one call"
ARGUMENT_LIMITS = JsonLimits(max_bytes=32 * 2**20)
"""Generous, because the size of the whole answer is limited already."""
WEB_TOOL_NAMES = frozenset({"web_fetch", "web_search"})
_TOOL_CANCELLED_ITSELF = ToolResult("error", error_text="the tool stopped: an operation inside it was cancelled")


@dataclass(frozen=True, slots=True)
class ToolCallRunner:
    """Runs calls with one turn's tools. A call that needs a person's approval or answer stays open."""

    turn: Turn
    deps: TurnDeps
    writer: ChunkWriter
    repeat_guard: RepeatGuard

    async def run(self, step: Step, calls: list[ToolCallRecord]) -> AsyncIterator[c.Chunk]:
        """Run `calls`, some of `step.calls`, and set their outputs."""
        if calls:
            self.deps.tool_context.outside_text.seen |= self.deps.tools.show_outside_text
            await self.deps.tools.toolset.prepare()
        semaphore = asyncio.Semaphore(self.deps.services.parallel_tools)
        added_tools: dict[str, None] = {}
        running = {asyncio.create_task(self._run_one(call, semaphore)): call for call in calls}
        try:
            while running:
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in [task for task in running if task in done]:  # in the order in which the model made them
                    call = running.pop(task)
                    result = _TOOL_CANCELLED_ITSELF if task.cancelled() else task.result()
                    if isinstance(result, HumanRequest):
                        chunks = await self._request_human(call, result)
                    else:
                        chunks = self._finish_call(call, result)
                        added_tools |= dict.fromkeys(result.added_tools)
                    for chunk in chunks:
                        yield chunk
            self.deps.tools.add(tuple(added_tools))
        finally:
            await _stop(list(running))

    async def _run_one(self, call: ToolCallRecord, semaphore: asyncio.Semaphore) -> ToolResult | HumanRequest:
        async with semaphore:
            await self.deps.side_effect_gate.wait_open()
            for_all = self.deps.tool_context
            egress = TurnEgress(parent=for_all.egress)
            model_meter = CallMeter(for_all.model_meter) if for_all.model_meter is not None else None
            context = replace(
                for_all,
                egress=egress,
                model_meter=model_meter,
                call_id=call.id,
                approved=call.approved,
                approved_for=call.approved_for,
                authority=self.deps.tools.authority(),
            )
            result = await self.deps.tools.toolset.run(call.name, call.input, context)
        if not isinstance(result, ToolResult):
            return result
        if egress.sent_bytes or self._reads_outside(call.name):
            self.deps.tool_context.outside_text.seen = True
        if egress.sent_bytes:
            result = replace(result, metadata={**result.metadata, EGRESS_KEY: egress.sent_bytes})
        if model_meter is not None and model_meter.usage != Usage():
            used = model_meter.usage.model_dump(exclude_defaults=True)
            result = replace(result, metadata={**result.metadata, MODEL_USAGE_KEY: used})
        return result

    def _reads_outside(self, name: str) -> bool:
        spec = self.deps.tools.spec(name)
        return name in WEB_TOOL_NAMES or (spec is not None and spec.source != "builtin")

    async def _request_human(self, call: ToolCallRecord, request: HumanRequest) -> Iterable[c.Chunk]:
        """Return the chunks that ask for approval. A question needs none: its input shows it already."""
        if request.kind == "question":
            return ()
        shown: dict[str, Any] = {"code": await self.deps.approval_codes.new(), "agent": self.turn.request.agent}
        if request.reason or request.always or request.touches is not None:
            shown |= {"reason": request.reason, "always": [rule.model_dump() for rule in request.always]}
        if request.touches is not None:
            shown["touches"] = list(request.touches)
        approval = approval_id(self.turn.request.reply_id, call.id, call.name, call.input, shown)
        return self.writer.approval_wanted(call.id, approval, shown)

    def _finish_call(self, call: ToolCallRecord, result: ToolResult) -> Iterable[c.Chunk]:
        result = replace(result, metadata=dict(result.metadata))  # a copy, to which the warning is added
        if warning := self.repeat_guard.record(call.name, call.input, result):
            result.metadata["warning"] = warning
        self.deps.services.learnings.observe(call.name, call.input, result, self.deps.tool_context)
        if result.type == "output":
            call.output = result.envelope()
            return self.writer.call_done(call.id, call.output)
        error = result.error_text or "the tool failed"
        call.output = error_envelope(error, result.metadata)
        return self.writer.call_failed(call.id, error, result.metadata)


async def parse_arguments(call: ToolCall, *, cut_off: bool) -> dict[str, Any] | str:
    """Return the arguments of a call, or an error text for the model."""
    if not call.arguments.strip():
        return {}
    try:
        arguments: Any = await read_json_async(call.arguments.encode(errors="replace"), ARGUMENT_LIMITS)
    except JsonRefused as refusal:
        if cut_off:
            return CUT_OFF
        if (mended := mend_arguments(call.arguments)) is not None:
            return mended
        return f"the arguments are not valid JSON ({refusal}): send one JSON object"
    if not is_object(arguments):
        if (mended := mend_arguments(call.arguments)) is not None:
            return mended
        return f"the arguments must be one JSON object, not {_shown(arguments)}: name the parameters"
    return arguments


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


async def _stop(tasks: list[asyncio.Task[ToolResult | HumanRequest]]) -> None:
    """Cancel the tasks. A tool that ignores that for CANCEL_SECONDS is left running."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
