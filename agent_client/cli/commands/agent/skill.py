"""`agent skill`: plugins from their first line to their log."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...contexts import only_workspace, open_mesh
from ...errors import DONE, FAILED, CliError, UsageError
from ...log_lines import entry_of, readable
from ...private_file import new_private_file, replace_private_file
from ...run import Invocation, command, local_command
from .local_runtime import find_local_agent, run_runtime
from .skill_verdict import states_of, verdict

if TYPE_CHECKING:
    from agent_common.protocol import SkillState

app = typer.Typer(help="Write skills, try them, see what they do.", rich_markup_mode=None, no_args_is_help=True)
FolderOption = Annotated[
    Path | None,
    typer.Option("-o", "--folder", help="The agent's folder of skills; without it the workspace's, if it is here."),
]
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
TEMPLATE = '''@skill(read_only=True)
def {name}(text: str, at_least: int = 1, *, workspace) -> dict:
    """Count the words of a text. Say here what it does and when to use it: the model decides by this text.

    Args:
        text: The text
        at_least: Shortest word that counts
    """
    # `workspace` is the agent's folder, a pathlib.Path; what is printed is the skill's log
    return {{"words": sum(len(word) >= at_least for word in text.split())}}


def self_check():
    """Runs before the skill is offered; an exception keeps it from the agent."""
    assert {name}("one three", 4, workspace=None) == {{"words": 1}}
'''
_LOGGER = "agent_runtime.skills"


@app.command()
@local_command
async def new(
    call: Invocation,
    name: Annotated[str, typer.Argument(help="The skill's name: small letters, digits and `_`.")],
    folder: Annotated[Path, typer.Option("-o", "--folder", help="Where the file is written.")] = Path(),
) -> None:
    """Write a skill that works, to change it into yours."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a skill", "use small letters, digits and `_`, a letter first")
    file = folder / f"{name}.py"
    with new_private_file(file) as target:
        target.write(TEMPLATE.format(name=name).encode())
    arguments = json.dumps({"text": "one two three"})
    if call.output.json:
        call.output.document({"file": str(file), "arguments": {"text": "one two three"}})
    else:
        call.output.line(str(file))
    call.output.note(f"try it: agent skill test {file} --arguments '{arguments}'")


@app.command("test")
@local_command
async def try_(
    call: Invocation,
    file: Annotated[Path, typer.Argument(help="The plugin: a Python file, or a package's folder.")],
    arguments: Annotated[str | None, typer.Option(metavar="JSON", help="Call it with these.")] = None,
    skill: Annotated[str | None, typer.Option(metavar="NAME", help="The skill to call, if it has several.")] = None,
) -> int:
    """Try a plugin as the server would, with the agent-runtime of this machine. Exit code 0: it would be offered."""
    options = [*(("--arguments", arguments) if arguments else ()), *(("--skill", skill) if skill else ())]
    code = await run_runtime(call, ["skill", "test", *options, "--", str(file)])
    if code == DONE:
        call.output.note(f"give it to an agent: agent skill add {file}")
    return code


@app.command()
@command
async def add(
    call: Invocation,
    file: Annotated[Path, typer.Argument(help="The plugin, a Python file.")],
    folder: FolderOption = None,
) -> int:
    """Try a plugin, and give it to an agent, or its next version. A running agent has it from its next turn on.

    Exit code 0: the agent offers it, or has not said yet what has become of it.
    """
    if not NAME.fullmatch(file.stem) or file.suffix != ".py":
        raise UsageError(f"{file} is no plugin", "name a Python file of small letters, digits and `_`, a letter first")
    target = await _skills_folder(call, folder) / file.name
    code = await run_runtime(call, ["skill", "test", "--", str(file)])
    if code != DONE:
        return code
    known_agent = not (folder or os.environ.get("AGENT_SKILLS_DIR") or os.environ.get("AGENT_DATA_DIR"))
    before = await states_of(call, file.name) if known_agent else None
    try:
        text = file.read_text("utf-8")
        changes = not target.exists() or target.read_text("utf-8") != text
        replace_private_file(target, text)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CliError(f"{target}: cannot be written: {why}") from error
    call.output.note(f"it is in {target}")
    if before is None:
        call.output.note("`agent skill list` shows what has become of it once its agent runs")
        return DONE
    return _tell(call, await verdict(call, file.name, before) if changes or not before else before)


def _tell(call: Invocation, states: Sequence[SkillState]) -> int:
    """Say what the agent has made of a plugin, and return the exit code."""
    for one in states:
        call.output.note(f"{one.name} is {one.state}, version {one.version}" + (f": {one.error}" if one.error else ""))
    if not states:
        call.output.note("the agent has not tried it yet; `agent skill list` shows what becomes of it")
    return FAILED if any(one.error for one in states) else DONE


@app.command()
@command
async def remove(
    call: Invocation,
    name: Annotated[str, typer.Argument(help="The plugin's file, with or without `.py`.")],
    folder: FolderOption = None,
) -> None:
    """Take a plugin away from an agent. A running agent is without it from its next turn on."""
    name = name.removesuffix(".py")
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a plugin", "`agent skill list` shows their files")
    target = await _skills_folder(call, folder) / f"{name}.py"
    try:
        target.unlink()
    except OSError as error:
        raise CliError(f"{target}: {error.strerror}", "`agent skill list` shows the files") from error
    if call.output.json:
        call.output.document({"file": str(target)})
    else:
        call.output.line(f"{target} is removed")


async def _skills_folder(call: Invocation, given: Path | None) -> Path:
    """Return the agent's folder of skills on this machine. Raises UsageError."""
    if named := given or os.environ.get("AGENT_SKILLS_DIR"):
        return Path(named)
    if (agent := await find_local_agent(call)) is None:
        raise UsageError("the agent's folder of skills is not on this machine", "name it with --folder")
    return agent.data_dir / "skills"


@app.command("list")
@command
async def list_(call: Invocation) -> None:
    """List the skills of an agent, with the errors of those that cannot be called."""
    async with call.agent() as agent:
        found = await agent.skills()
    if call.output.json:
        call.output.document({"skills": [one.model_dump(mode="json") for one in found]})
        return
    rows = [(one.name, one.state, one.version, one.file, one.error) for one in found]
    call.output.table(("skill", "state", "version", "file", "error"), rows)


@app.command()
@command
async def logs(
    call: Invocation, name: Annotated[str | None, typer.Argument(help="Only this skill, or its file.")] = None
) -> None:
    """Print what the skills of an agent have printed and done, as far back as its host has the output."""
    target = call.target()
    async with open_mesh(target) as mesh:
        console = await mesh.workspaces.console(target.workspace or await only_workspace(mesh))
    for entry in skill_entries(console, name):
        if call.output.json:
            call.output.record(entry)
        else:
            call.output.line(readable(entry))


def skill_entries(console: str, name: str | None) -> list[dict[str, Any]]:
    """Return the entries of a runtime's log that are about skills, or about one of them."""
    entries = filter(None, map(entry_of, console.splitlines()))
    found = [entry for entry in entries if str(entry.get("logger", "")).startswith(_LOGGER)]
    wanted = {name, f"{name}.py"}
    return [one for one in found if name is None or wanted & {one.get(key) for key in ("skill", "plugin", "file")}]
