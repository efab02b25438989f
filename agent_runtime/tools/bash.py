"""`bash`: a shell command, confined."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ToolFailure
from ..ports import ToolContext, ToolSpec
from ..sandbox import Box, Confinement, Finished, Limits
from ..workspace import new_file
from .contract import Output, Requirements, Tool
from .files import place

LONGEST = 600.0
"""Seconds that a call may ask for."""
SLACK = 10.0
"""Seconds on top of its own deadline in which the command is ended and its output collected."""
COMMAND_LIMIT = 120 * 1024
"""Bytes; the system takes little more in one argument."""
HEAD = 2048
"""Characters of a truncated output that `head` repeats, as it does in the results of all tools."""

DESCRIPTION = (
    "Run a command with bash in the workspace; $SCRATCH is a folder for temporary files. {sight} It has no terminal, "
    "and background processes end with the command. Not for reading, writing, editing or searching files: read, write, "
    "edit, glob and grep do that. Output over 200 KB keeps its beginning and end and goes to a file."
)
CONFINED = "It sees these two and the system's programs, no network and nothing else; /tmp is empty at every call."
BARE = "It is not confined."


def bash_tool(confinement: Confinement, *, timeout: float, limits: Limits) -> Tool:
    """`timeout` is the default deadline of a command, in seconds."""
    longest = max(LONGEST, timeout)

    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        seconds = arguments["timeout_ms"] / 1000 if "timeout_ms" in arguments else timeout
        _check(arguments["command"])
        box = _box(arguments.get("workdir", "."), context, limits)
        done = await confinement.run(
            ("bash", "-c", arguments["command"]),
            box,
            timeout=seconds,
            spill=lambda: new_file(context.scratch, ".txt"),
        )
        return _output(done)

    sight = BARE if confinement.name == "off" else CONFINED
    spec = ToolSpec("bash", DESCRIPTION.format(sight=sight), _parameters(timeout, longest))
    requires = Requirements(read=("{workspace}", "{scratch}"), write=("{workspace}", "{scratch}"), shell=("*",))  # noqa: S604 - names programs, runs none
    return Tool(spec, run, requires, timeout=longest + SLACK)


def _parameters(timeout: float, longest: float) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "What bash -c gets"},
            "workdir": {"type": "string", "minLength": 1, "description": "Where to run it; default: the workspace"},
            "timeout_ms": {
                "type": "integer",
                "minimum": 1,
                "maximum": round(longest * 1000),
                "description": f"Deadline; default: {timeout * 1000:.0f}. At the deadline all of it is ended",
            },
            "description": {"type": "string", "description": "What it does, in a few words, for those who watch"},
        },
        "required": ["command"],
        "additionalProperties": False,
    }


def _check(command: str) -> None:
    if "\0" in command:
        raise ToolFailure("command: must not contain null bytes", kind="invalid")
    if len(command.encode(errors="replace")) > COMMAND_LIMIT:
        limit = f"{COMMAND_LIMIT // 1024} KiB"
        raise ToolFailure(
            f"command: is longer than {limit}; put it into a file with write and run that", kind="invalid"
        )


def _box(workdir: str, context: ToolContext, limits: Limits) -> Box:
    at = place(workdir, context)
    if not at.path.is_dir():
        raise ToolFailure(f"workdir: {at.shown} is not a folder", kind="invalid")
    where = {"HOME": str(context.scratch), "SCRATCH": str(context.scratch), "WORKSPACE": str(context.workspace)}
    return Box(workdir=at.path, writable=(context.workspace, context.scratch), env=where, limits=limits)


def _output(done: Finished) -> Output:
    data: dict[str, Any] = {
        "stdout": done.stdout,
        "stderr": done.stderr,
        "exit_code": done.exit_code,
        "timed_out": done.timed_out,
    }
    if done.truncated:
        data["head"] = (done.stdout or done.stderr)[:HEAD]
    return Output(data, truncated=done.truncated, output_path=done.output_path, sized=True)
