"""`bash`: runs a shell command, confined."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_common.protocol import ANY_PROGRAM, ArgPattern, Folders, Program, RequirementSet

from ...errors import ToolFailure
from ...ports import ToolContext, ToolSpec
from ...sandbox import OUTPUT_LIMIT, CommandResult, Confinement, SandboxLimits, SandboxSpec
from ...workspace import create_output_file
from ..core.contract import WORKSPACE_AND_SCRATCH, AccessRequest, Output, Tool
from ..core.envelope import HEAD_LENGTH
from ..files.paths import has_hidden_part, resolve_path
from ..files.quota import QuotaCheck
from ..shell import script
from ..shell.programs import suggested_pattern
from ..shell.words import quote_word
from .command_proxy import CommandProxy

if TYPE_CHECKING:
    from agent_common.net import Upstream

MAX_TIMEOUT = 600.0
"""Maximum seconds that a call may ask for."""
CLEANUP_SECONDS = 10.0
"""Seconds beyond the command's own deadline for killing it and collecting its output."""
MAX_PATH_SHOWN = 200
"""Maximum characters of a path repeated in a reason."""
COMMAND_LIMIT = 120 * 1024
"""Maximum bytes; the system accepts little more in one argument."""

DESCRIPTION = (
    "Run a command with bash in the workspace; $SCRATCH is a folder for temporary files. {sight} It has no terminal, "
    "and background processes end with the command. Not for reading, writing, editing or searching files: read, write, "
    "edit, glob and grep do that. Output over 200 KB keeps its beginning and end and goes to a file."
)
BUBBLEWRAP_VIEW = (
    "It sees these two and the system's programs and nothing else; /tmp is empty at every call. It has no network, but "
    "for hosts that rules open: $HTTPS_PROXY, where it is set, leads to those."
)
LANDLOCK_VIEW = (
    "It sees these two and the system's programs, no network and nothing else; $TMPDIR is empty at every call."
)
"""Without namespaces, every command gets its own folder for temporary files."""
NO_CHMOD_NOTE = " chmod does nothing: run scripts by their interpreter."
VIEWS = {"off": "It is not confined.", "uid": LANDLOCK_VIEW, "landlock": LANDLOCK_VIEW + NO_CHMOD_NOTE}


REQUIREMENTS = RequirementSet(fs=Folders(read=WORKSPACE_AND_SCRATCH, write=WORKSPACE_AND_SCRATCH), shell=[ANY_PROGRAM])  # noqa: S604 - names programs, runs none


def bash_tool(
    confinement: Confinement,
    *,
    timeout: float,
    limits: SandboxLimits,
    upstream: Upstream | None = None,
) -> Tool:
    """`timeout` is the default deadline of a command in seconds; `upstream` connects those commands that rules allow to
    use the network."""
    longest = max(MAX_TIMEOUT, timeout)
    space = QuotaCheck(confinement, limits)
    command_proxy = CommandProxy(confinement, upstream)

    async def run(arguments: Mapping[str, Any], context: ToolContext) -> Output:
        seconds = arguments["timeout_ms"] / 1000 if "timeout_ms" in arguments else timeout
        _check_command(arguments["command"])
        async with command_proxy.open(context) as socket:
            sandbox_spec = replace(_sandbox_spec(arguments.get("workdir", "."), context, space), network=socket)
            done = await confinement.run(
                ("bash", "-c", arguments["command"]),
                sandbox_spec,
                timeout=seconds,
                spill=lambda: create_output_file(context.scratch, ".txt"),
            )
        return _output(done)

    sight = VIEWS.get(confinement.name, BUBBLEWRAP_VIEW)
    spec = ToolSpec("bash", DESCRIPTION.format(sight=sight), _parameters(timeout, longest))
    return Tool(
        spec,
        run,
        REQUIREMENTS,
        timeout=longest + CLEANUP_SECONDS,
        describe_access=_describe_access,
        result_doc="`stdout`, `stderr`, `exit_code`, `timed_out`, `stopped?`, `notice?`, `head?`",
        limits_doc=f"{OUTPUT_LIMIT // 1024} KB of both streams, {COMMAND_LIMIT // 1024} KiB of command, {longest:g} s",
    )


async def _describe_access(arguments: Mapping[str, Any], context: ToolContext) -> AccessRequest:
    """Describe the access of a script.

    Each command that it runs must be allowed. A script that also runs something else must not match a rule for `git *`;
    if that cannot be ruled out, only a rule for everything allows it. Another `workdir` counts as `cd`, because
    programs named by a relative path, and the files that programs read, are different there.
    """
    _check_command(arguments["command"])
    read = await script.parse_commands_async(arguments["command"])
    at = resolve_path(arguments.get("workdir", "."), context, "workdir").shown
    texts = (*read.texts, *(() if at == "." else (f"cd {quote_word(at)}",)))
    opaque = read.opaque or ("" if read.texts else "it runs no command") or _hidden_path_reason(texts, read, context)
    return AccessRequest(
        requires=None
        if opaque
        else REQUIREMENTS.model_copy(update={"shell": [_program_requirement(one, read) for one in texts]}),
        subjects=texts if read.texts else (arguments["command"],),
        starts=read.starts,
        aliases=_subject_aliases(read),
        opaque=opaque,
        anything=read.anything,
        suggested_patterns=tuple(dict.fromkeys(suggested_pattern(text, writes=bool(read.writes)) for text in texts)),
    )


def _hidden_path_reason(texts: Sequence[str], commands: script.ScriptCommands, context: ToolContext) -> str:
    """Return why a script may change what programs run; empty if it does not. Rules do not cover redirections, and
    harmless programs may take commands from hidden files such as `.git/config`."""
    folders = [word for text in texts if text.startswith("cd ") for word in shlex.split(text)[1:]]
    hidden = next((path for path in (*commands.writes, *folders) if has_hidden_part(path, context)), None)
    return "" if hidden is None else f"{hidden[:MAX_PATH_SHOWN]} is hidden, and programs may take commands from there"


def _subject_aliases(commands: script.ScriptCommands) -> tuple[tuple[str, ...], ...]:
    """Return further texts that deny rules are matched against; nested commands go with the first subject."""
    stripped = [(script.strip_program_folder(text),) for text in commands.texts]
    inner = tuple(one for text in commands.nested for one in (text, script.strip_program_folder(text)))
    return ((*stripped[0], *inner), *stripped[1:]) if stripped else ()


def _program_requirement(text: str, commands: script.ScriptCommands) -> Program:
    """Return a simple command as a requirement: this program with exactly these arguments, or with any if some are
    known only at run time."""
    if text in commands.starts:
        return Program(cmd=text.partition(" ")[0], args=[ArgPattern(wildcard=True)])
    cmd, *args = shlex.split(text)
    return Program(cmd=cmd, args=list(args))


def _parameters(timeout: float, max_timeout: float) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "What bash -c gets"},
            "workdir": {"type": "string", "minLength": 1, "description": "Where to run it; default: the workspace"},
            "timeout_ms": {
                "type": "integer",
                "minimum": 1,
                "maximum": round(max_timeout * 1000),
                "description": f"Deadline; default: {timeout * 1000:.0f}. At the deadline all of it is ended",
            },
            "description": {"type": "string", "description": "What it does, in a few words, for those who watch"},
        },
        "required": ["command"],
        "additionalProperties": False,
    }


def _check_command(command: str) -> None:
    if "\0" in command:
        raise ToolFailure("command: must not contain null bytes", kind="invalid")
    if len(command.encode(errors="replace")) > COMMAND_LIMIT:
        limit = f"{COMMAND_LIMIT // 1024} KiB"
        raise ToolFailure(
            f"command: is longer than {limit}; put it into a file with write and run that", kind="invalid"
        )


def _sandbox_spec(workdir: str, context: ToolContext, quota: QuotaCheck) -> SandboxSpec:
    at = resolve_path(workdir, context, "workdir")
    if not at.path.is_dir():
        raise ToolFailure(f"workdir: {at.shown} is not a folder", kind="invalid")
    where = {"HOME": str(context.scratch), "SCRATCH": str(context.scratch), "WORKSPACE": str(context.workspace)}
    return SandboxSpec(
        workdir=at.path,
        writable=(context.workspace, context.scratch),
        env=where,
        limits=quota.limits,
        quotas=quota.quotas(context),
    )


def _output(result: CommandResult) -> Output:
    data: dict[str, Any] = {
        "stdout": result.stdout,
        "stderr": result.stderr,
        "exit_code": result.exit_code,
        "timed_out": result.timed_out,
    }
    if result.stopped:
        data["stopped"] = result.stopped
    if result.notice:
        data["notice"] = result.notice
    if result.truncated:
        data["head"] = (result.stdout or result.stderr)[:HEAD_LENGTH]
    return Output(data, truncated=result.truncated, output_path=result.output_path, already_bounded=True)
