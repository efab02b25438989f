"""The only way to run a tool: validate the arguments, check permissions and watchdog, run with a deadline, wrap up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from typing import Any, Protocol

from agent_common.telemetry import logger

from ...errors import AgentRuntimeError, MeshUnavailable, ToolFailure
from ...ports import HumanRequest, ToolContext, ToolResult, ToolSpec
from ...workspace import PromptFileAuthors, Writer, is_instructions, watch_call
from . import schema
from .coercion import coerce_arguments
from .contract import NeedsHuman, Output, Tool
from .deadline import MAX_EXTENSION, Deadline, Expired
from .envelope import RESULT_LIMIT, fit_output
from .permissions import PermissionCheck
from .verdict import ALLOW, Verdict

DEFAULT_TIMEOUT = 120.0
NAMING_TOOLS = frozenset({"edit", "write"})
"""Tools that change the one file that their arguments name."""

log = logger(__name__)


class Capability(Protocol):
    """The first check of a call: what the agent may do at all. Its refusal is final."""

    async def check(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Verdict: ...


class Watchdog(Protocol):
    """The second check of a call. It may only narrow what the capability allows."""

    async def check(self, spec: ToolSpec, arguments: Mapping[str, Any], context: ToolContext) -> Verdict: ...


class NoWatchdog:
    async def check(self, spec: ToolSpec, arguments: Mapping[str, Any], context: ToolContext) -> Verdict:
        return ALLOW


@dataclass(frozen=True, slots=True)
class ToolGate:
    """Runs calls. Raises nothing but a cancellation."""

    timeout: float = DEFAULT_TIMEOUT
    """Seconds for a tool without a deadline of its own."""
    result_limit: int = RESULT_LIMIT
    capability: Capability = field(default_factory=PermissionCheck)
    watchdog: Watchdog = field(default_factory=NoWatchdog)
    deadline: Deadline = field(default_factory=Deadline)
    authors: PromptFileAuthors | None = None
    """Keeps who writes files that become instructions; None: nobody does."""
    _beginning: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def run(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult | HumanRequest:
        started = time.monotonic()
        try:
            output = await self._check_and_run(tool, arguments, context)
        except NeedsHuman as needs:
            return needs.request
        except ToolFailure as failure:
            return error_result(failure.message, failure.kind, started)
        except Expired:
            return error_result(self._expired_text(tool, context), "timeout", started)
        except AgentRuntimeError as failure:
            kind = "unavailable" if isinstance(failure, MeshUnavailable) else "backend"
            return error_result(failure.message, kind, started)
        except Exception as bug:
            # Any failure of a tool goes into its envelope; the traceback is for the operator.
            log.exception("a tool failed unexpectedly", tool=tool.spec.name, call_id=context.call_id)
            return error_result(
                f"{tool.spec.name} failed with an internal error ({type(bug).__name__})",
                "backend",
                started,
            )
        metadata: dict[str, Any] = {"duration_ms": _elapsed_ms(started), **output.metadata}
        if output.truncated:
            metadata["truncated"] = True
        if output.output_path is not None:
            metadata["output_path"] = output.output_path
        return ToolResult("output", data=output.data, metadata=metadata, added_tools=output.added_tools)

    def _expired_text(self, tool: Tool, context: ToolContext) -> str:
        seconds = tool.timeout or self.timeout
        text = f"{tool.spec.name} did not finish within its deadline of {seconds:g} s"
        if context.progress.at is not None:
            text += f" after its last report of progress, or {seconds * MAX_EXTENSION:g} s in all"
        return f"{text}; the operator can raise it by {tool.timeout_setting}" if tool.timeout_setting else text

    async def _check_and_run(self, tool: Tool, arguments: Mapping[str, Any], context: ToolContext) -> Output:
        await schema.load_schema_validator()
        if tool.adapt is not None:
            arguments = tool.adapt(arguments)
        arguments = coerce_arguments(tool.spec.parameters, arguments)
        if wrong := await schema.check_arguments(tool.spec.parameters, arguments):
            raise ToolFailure("; ".join(wrong), kind="invalid")
        arguments = schema.normalize_arguments(tool.spec.parameters, arguments)
        allowed = await self.capability.check(tool, arguments, context)
        _enforce(allowed, context)
        second = await self.watchdog.check(tool.spec, arguments, context)
        second = replace(second, always=second.always or allowed.always, touches=allowed.touches)
        _enforce(second, context, approved=allowed.by_person)
        seconds = tool.timeout or self.timeout
        result = await self._run_watched(tool, arguments, context, seconds, second.touches)
        return await fit_output(result, self.result_limit, context.scratch)

    async def _run_watched(
        self,
        tool: Tool,
        arguments: Mapping[str, Any],
        context: ToolContext,
        seconds: float,
        touches: tuple[str, ...] | None,
    ) -> Any:
        """Run the tool, and keep which files with instructions it has changed."""
        if self.authors is None or not (tool.requires.fs.write or tool.requires.shell):
            return await self.deadline.run(tool.run(arguments, context), seconds, context.progress)
        writer = partial(_writer, tool, context, touches or ())
        async with watch_call(self.authors, writer, self._beginning):  # the calls of one step begin in their order
            return await self.deadline.run(tool.run(arguments, context), seconds, context.progress)


def _writer(tool: Tool, context: ToolContext, touches: tuple[str, ...]) -> Writer:
    """Return who makes a call. Before a tool names a file with instructions a person has agreed, where one has to;
    nobody was asked about another file, which links may make one of a package. A skill or a server may write what it
    has just read from outside."""
    reads_outside = tool.spec.source != "builtin" or (context.egress is not None and context.egress.sent_bytes > 0)
    unreviewed = (context.outside_text.seen or reads_outside) and not context.approved
    if tool.spec.name in NAMING_TOOLS:
        files = frozenset(str(context.workspace / name) for name in touches)
        asked = all(is_instructions(PurePath(name).parts) for name in touches)
        clears = context.approved or tool.spec.name == "write"
        return Writer(context.principal, context.agent, unreviewed and not asked, files, clears)
    return Writer(context.principal, context.agent, unreviewed, clears=context.approved)


def error_result(text: str, kind: str, started: float) -> ToolResult:
    """Return an error envelope. The kind tells whether other arguments would help (`invalid`) or not."""
    return ToolResult("error", error_text=text, metadata={"duration_ms": _elapsed_ms(started), "kind": kind})


def _enforce(verdict: Verdict, context: ToolContext, *, approved: bool = False) -> None:
    if verdict.action == "ask" and (approved or context.is_approved_for(verdict.touches)):
        return
    if verdict.action == "ask" and context.interactive:
        raise NeedsHuman(HumanRequest("approval", verdict.reason, verdict.always, verdict.touches))
    if verdict.action == "ask":
        raise ToolFailure(_unattended_reason(verdict.reason), kind="denied")
    if verdict.action == "deny":
        raise ToolFailure(verdict.reason or "it is not allowed", kind="denied")


def _unattended_reason(reason: str) -> str:
    needs = "it needs a human's approval, and none is here"
    return f"{reason.rstrip('.')}; {needs}" if reason else needs


def _elapsed_ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
