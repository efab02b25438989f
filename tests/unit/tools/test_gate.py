from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from agent_runtime.errors import MeshUnavailable, StoreError, ToolFailure
from agent_runtime.ports import ToolContext, ToolResult, ToolSpec
from agent_runtime.tools import Output, Tool, ToolGate, Verdict
from agent_runtime.tools.core.contract import WRITE_REQUIREMENTS
from agent_runtime.tools.core.deadline import Deadline

from .doubles import answering, raising, tool


async def run(one: Tool, context: ToolContext, gate: ToolGate | None = None, **arguments: Any) -> ToolResult:
    result = await (gate or ToolGate()).run(one, arguments, context)
    assert isinstance(result, ToolResult)
    return result


async def test_plain_data_comes_in_the_envelope(context: ToolContext) -> None:
    result = await run(answering({"n": 1}), context)
    duration = result.metadata.pop("duration_ms")
    assert type(duration) is int
    assert result.envelope() == {"type": "output", "data": {"n": 1}, "metadata": {}}


async def test_a_tool_may_say_that_its_data_is_not_the_whole(context: ToolContext) -> None:
    result = await run(answering(Output("x", truncated=True, output_path="/p")), context)
    assert (result.metadata["truncated"], result.metadata["output_path"]) == (True, "/p")


@pytest.mark.parametrize(
    ("error", "text", "kind"),
    [
        (ToolFailure("no disk"), "no disk", "backend"),
        (ToolFailure("path: wrong", kind="invalid"), "path: wrong", "invalid"),
        (MeshUnavailable("no embed"), "no embed", "unavailable"),
        (StoreError("locked"), "locked", "backend"),
        (RuntimeError("/srv/secret/path"), "broken failed with an internal error (RuntimeError)", "backend"),
        (TimeoutError(), "broken failed with an internal error (TimeoutError)", "backend"),
    ],
)
async def test_whatever_a_tool_raises_is_an_error_envelope(
    context: ToolContext, error: Exception, text: str, kind: str
) -> None:
    result = await run(raising(error), context)
    result.metadata.pop("duration_ms")
    assert result.envelope() == {"type": "error", "error_text": text, "metadata": {"kind": kind}}


async def test_wrong_arguments_never_reach_the_tool(context: ToolContext) -> None:
    result = await run(raising(AssertionError()), context, path="x")
    assert result.error_text == "path: no such field; there are: none"
    assert result.metadata["kind"] == "invalid"


async def test_a_cancel_passes_through_and_ends_the_tool(context: ToolContext) -> None:
    ended = asyncio.Event()

    async def slow(arguments: Mapping[str, Any], context: ToolContext) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    call = asyncio.create_task(run(tool("slow", slow), context))
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


async def sleepy(arguments: Mapping[str, Any], context: ToolContext) -> None:
    await asyncio.sleep(60)


async def test_a_deadline_is_named_in_the_error(context: ToolContext) -> None:
    result = await run(tool("sleepy", sleepy, timeout=0.05), context)
    assert result.error_text == "sleepy did not finish within its deadline of 0.05 s"
    assert result.metadata["kind"] == "timeout"
    assert result.metadata["duration_ms"] >= 50
    result = await run(tool("sleepy", sleepy), context, ToolGate(timeout=0.02))
    assert result.error_text == "sleepy did not finish within its deadline of 0.02 s"


async def test_a_tool_that_will_not_be_cancelled_is_given_up(context: ToolContext) -> None:
    release = asyncio.Event()

    async def stubborn(arguments: Mapping[str, Any], context: ToolContext) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        raise ValueError

    deadline = Deadline(grace=0.05)
    started = time.monotonic()
    result = await run(tool("stubborn", stubborn, timeout=0.05), context, ToolGate(deadline=deadline))
    assert result.metadata["kind"] == "timeout"
    assert time.monotonic() - started < 30
    assert len(deadline._stuck) == 1
    release.set()
    await asyncio.sleep(0.01)
    assert len(deadline._stuck) == 0


# ---------------------------------------------------------------- order


class Notes:
    """Capability and watchdog that write down when they were asked, and answer as told."""

    def __init__(self, **answers: Verdict) -> None:
        self.order: list[str] = []
        self._answers = {"capability": Verdict(), "watchdog": Verdict(), **answers}
        self.asked: tuple[Any, ...] = ()

    async def _check(self, who: str, *asked: Any) -> Verdict:
        self.order.append(who)
        self.asked = asked
        return self._answers[who]

    def gate(self) -> ToolGate:
        notes = self

        class Capability:
            async def check(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Verdict:
                return await notes._check("capability", tool, arguments, context)

        class Watchdog:
            async def check(self, spec: ToolSpec, arguments: Mapping[str, Any], context: ToolContext) -> Verdict:
                return await notes._check("watchdog", spec, arguments, context)

        return ToolGate(capability=Capability(), watchdog=Watchdog())

    def tool(self) -> Tool:
        async def execute(arguments: Mapping[str, Any], context: ToolContext) -> str:
            self.order.append("execute")
            return "done"

        return tool("noted", execute, parameters={"type": "object", "properties": {"n": {"type": "integer"}}})


async def test_validate_then_capability_then_watchdog_then_execute(context: ToolContext) -> None:
    notes = Notes()
    assert (await run(notes.tool(), context, notes.gate(), n="x")).type == "error"
    assert notes.order == []
    assert (await run(notes.tool(), context, notes.gate(), n=1)).data == "done"
    assert notes.order == ["capability", "watchdog", "execute"]


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (Verdict("deny", "not on Sundays"), "not on Sundays"),
        (Verdict("deny"), "it is not allowed"),
        (Verdict("ask"), "it needs a human's approval, and none is here"),
    ],
)
async def test_whoever_denies_ends_it_and_the_model_hears_why(
    context: ToolContext, verdict: Verdict, text: str
) -> None:
    for notes, asked in ((Notes(capability=verdict), 1), (Notes(watchdog=verdict), 2)):
        result = await run(notes.tool(), context, notes.gate(), n=1)
        assert (result.error_text, result.metadata["kind"]) == (text, "denied")
        assert len(notes.order) == asked


async def test_a_watchdog_that_breaks_lets_nothing_through(context: ToolContext) -> None:
    notes = Notes()
    notes._answers.pop("watchdog")
    result = await run(notes.tool(), context, notes.gate(), n=1)
    assert result.type == "error"
    assert "execute" not in notes.order


async def test_an_envelope_is_always_json(context: ToolContext) -> None:
    for data in ("\ud800 lone", {"k\udcff": [1.5, None, True, "é"]}, [], 0, None, ""):
        result = await run(answering(data), context)
        assert json.loads(json.dumps(result.envelope()).encode())["type"] == "output"
        json.dumps(result.envelope(), ensure_ascii=False).encode()


async def test_a_writing_call_needs_no_thread_of_those_that_may_hang(context: ToolContext) -> None:
    seen: list[str] = []
    authors: Any = SimpleNamespace(begin=lambda _: seen.append("begin"), end=lambda _: seen.append("end"))
    release = threading.Event()
    pool = ThreadPoolExecutor(1)
    pool.submit(release.wait, 10)
    asyncio.get_running_loop().set_default_executor(pool)
    try:
        async with asyncio.timeout(5):
            writes = replace(answering({"n": 1}), requires=WRITE_REQUIREMENTS)
            await run(writes, context, ToolGate(authors=authors))
    finally:
        release.set()
    assert seen == ["begin", "end"]
