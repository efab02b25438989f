"""Scripts are read by a process that may break without anybody noticing more than a refusal."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

from agent_runtime.tools import ShellReader
from agent_runtime.tools.shell import commands

from .conftest import House

SCRIPTS = ["git status && ls -la | wc -l", "rm -rf $(cat list)", "echo 'ü🎉' > \"$X\"", "eval x", "", "((("]


async def test_it_reads_as_the_reader_within(house: House) -> None:
    reader = ShellReader(house.confinement)
    try:
        for script in SCRIPTS:
            assert await reader.read(script) == commands(script)
        assert (await reader.read("x" * 200_000)).opaque
    finally:
        await reader.close()


async def test_one_that_breaks_is_replaced(house: House, tmp_path: Path) -> None:
    reader = ShellReader(house.confinement)
    try:
        assert not (await reader.read("ls")).opaque
        child = reader._child
        assert child is not None
        for pid, line in child.family().items():
            if "shell_worker" in line:
                with suppress(ProcessLookupError):  # the death of one takes others along
                    os.kill(pid, signal.SIGKILL)
        await child.wait()
        assert (await reader.read("ls -l")).texts == ("ls -l",)
    finally:
        await reader.close()
    assert not child.running


async def test_one_that_hangs_or_raves_makes_a_script_opaque(house: House) -> None:
    program = house.home.workspace / "reader.py"
    for code in ("import time; time.sleep(60)", "print('no JSON', flush=True)", "import os; os._exit(3)"):
        program.write_text(code)
        reader = ShellReader(house.confinement, program, seconds=0.5)
        assert (await reader.read("ls")).opaque
        await reader.close()


async def test_what_could_not_be_read_once_is_read_the_next_time(house: House) -> None:
    program = house.home.workspace / "reader.py"
    program.write_text("print('[]', flush=True)")
    reader = ShellReader(house.confinement, program)
    assert (await reader.read("ls")).opaque
    answer = {"texts": ["ls"], "opaque": False, "vague": False, "pipelines": [], "writes": []}
    program.write_text(f"print({json.dumps(answer)!r}, flush=True)")
    assert (await reader.read("ls")).texts == ("ls",)
    await reader.close()
