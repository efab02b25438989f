"""The one way to run a tool: validate, capability, watchdog, execute under a deadline, envelope."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ..errors import AgentRuntimeError, MeshUnavailable, ToolFailure
from ..ports import HumanWait, ToolContext, ToolResult, ToolSpec
from ..telemetry import logger
from . import schema
from .contract import NeedsHuman, Output, Requirements, Tool
from .deadline import Deadline, Expired
from .envelope import RESULT_LIMIT, fit

DEFAULT_TIMEOUT = 120.0

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ask` waits for a person's approval, and means deny wherever none is attached."""

    action: Literal["allow", "deny", "ask"] = "allow"
    reason: str = ""


ALLOW = Verdict()


class Capability(Protocol):
    """What the agent may do at all. Asked before the watchdog; its answer is final."""

    async def check(self, requires: Requirements, context: ToolContext) -> Verdict: ...


class Watchdog(Protocol):
    """A second look at one call with its arguments. It may only narrow what the capability allows."""

    async def check(self, spec: ToolSpec, arguments: Mapping[str, Any], context: ToolContext) -> Verdict: ...


class AllCapabilities:
    async def check(self, requires: Requirements, context: ToolContext) -> Verdict:
        return ALLOW


class NoWatchdog:
    async def check(self, spec: ToolSpec, arguments: Mapping[str, Any], context: ToolContext) -> Verdict:
        return ALLOW


@dataclass(frozen=True, slots=True)
class Gate:
    """Runs calls. Never raises but for cancellation."""

    timeout: float = DEFAULT_TIMEOUT
    """Seconds for a tool that names no deadline of its own."""
    result_limit: int = RESULT_LIMIT
    capability: Capability = field(default_factory=AllCapabilities)
    watchdog: Watchdog = field(default_factory=NoWatchdog)
    deadline: Deadline = field(default_factory=Deadline)

    async def run(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult | HumanWait:
        started = time.monotonic()
        try:
            output = await self._pass(tool, arguments, context)
        except NeedsHuman as needs:
            return needs.wait
        except ToolFailure as failure:
            return error(failure.message, failure.kind, started)
        except Expired:
            seconds = f"{tool.timeout or self.timeout:g}"
            return error(f"{tool.spec.name} did not finish within its deadline of {seconds} s", "timeout", started)
        except AgentRuntimeError as failure:
            kind = "unavailable" if isinstance(failure, MeshUnavailable) else "backend"
            return error(failure.message, kind, started)
        except Exception as bug:
            # Whatever a tool does wrong stays in its envelope; the traceback is for the operator.
            log.exception("tool broke", tool=tool.spec.name, call_id=context.call_id)
            return error(f"{tool.spec.name} broke ({type(bug).__name__}); this is not your fault", "backend", started)
        metadata: dict[str, Any] = {"duration_ms": _since(started)}
        if output.truncated:
            metadata["truncated"] = True
        if output.output_path is not None:
            metadata["output_path"] = output.output_path
        return ToolResult("output", data=output.data, metadata=metadata)

    async def _pass(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Output:
        await schema.ready()
        if wrong := schema.faults(tool.spec.parameters, arguments):
            raise ToolFailure("; ".join(wrong), kind="invalid")
        _obey(await self.capability.check(tool.requires, context), context)
        _obey(await self.watchdog.check(tool.spec, arguments, context), context)
        seconds = tool.timeout or self.timeout
        result = await self.deadline.run(tool.run(arguments, context), seconds)
        return await fit(result, self.result_limit, context.scratch)


def error(text: str, kind: str, started: float) -> ToolResult:
    """An error envelope. The kind tells arguments to mend (`invalid`) from what no argument mends."""
    return ToolResult("error", error_text=text, metadata={"duration_ms": _since(started), "kind": kind})


def _obey(verdict: Verdict, context: ToolContext) -> None:
    if verdict.action == "ask" and context.approved:
        return
    if verdict.action == "ask" and context.interactive:
        raise NeedsHuman(HumanWait("approval", verdict.reason))
    if verdict.action != "allow":
        needs = "it needs a human's approval, and none is here" if verdict.action == "ask" else "it is not allowed"
        raise ToolFailure(verdict.reason or needs, kind="denied")


def _since(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
