"""The runtime of this machine: its command, for what is tried without a server, and its folder."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...contexts import identify, is_local, only_workspace, open_mesh
from ...errors import DONE, FAILED, CliError
from ...run import Invocation

MAX_LINE = 1024 * 1024
SECONDS = 900.0
"""Packages that a skill depends on may have to be installed first."""


async def run_runtime(call: Invocation, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
    """Run it, pass on what it prints, and return the exit code. It ends with this command. Raises CliError."""
    program = _program()
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        limit=MAX_LINE,
    )
    lines: list[str] = []
    try:
        async with asyncio.timeout(SECONDS):
            async for line in process.stdout or ():
                text = line.decode(errors="replace")
                lines.append(text.rstrip("\n"))
                if not call.output.json:
                    call.output.text(text)
            code = await process.wait()
    except TimeoutError:
        raise CliError(f"agent-runtime {arguments[0]} took more than {SECONDS:g} s") from None
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    if call.output.json:
        call.output.document({"passed": code == 0, "output": lines})
    return DONE if code == 0 else FAILED


@dataclass(frozen=True, slots=True)
class LocalAgent:
    """Where an agent of this machine keeps its files, and where it works."""

    data_dir: Path
    user_folder: str | None = None
    """Its `AGENT_WORKSPACE_DIR`, if it works in a folder of a person."""


async def find_local_agent(call: Invocation) -> LocalAgent | None:
    """Return the agent's folders, if they are on this machine."""
    from ...local import FOLDER_SETTING

    if data_dir := os.environ.get("AGENT_DATA_DIR"):
        return LocalAgent(Path(data_dir), os.environ.get(FOLDER_SETTING))
    target = await identify(call.target())
    if target.kind != "host" or not is_local(target.url):
        return None  # another machine's host must not choose a folder of this one
    async with open_mesh(target) as mesh:
        workspace = await mesh.workspaces.get(target.workspace or await only_workspace(mesh))
    if workspace.driver != "process" or not _is_here(workspace.data_dir):
        return None
    return LocalAgent(Path(workspace.data_dir), workspace.settings.get(FOLDER_SETTING))


def _is_here(folder: str) -> bool:
    return Path(folder).is_dir()


def _program() -> str:
    """Return its path: the one that is installed beside this command, or else on the PATH."""
    beside = Path(sys.executable).parent
    program = shutil.which("agent-runtime", path=f"{beside}{os.pathsep}{os.environ.get('PATH', os.defpath)}")
    if program is None:
        raise CliError(
            "agent-runtime is not installed on this machine", "install the wheel again (docs/how-to/install.md)"
        )
    return program
