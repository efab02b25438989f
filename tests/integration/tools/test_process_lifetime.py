"""Who dies when: at the deadline, at a cancel, with the server. Under both event loops."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import psutil
import pytest
import uvloop

import agent_runtime
from agent_runtime.errors import ToolFailure
from agent_runtime.sandbox import Confinement, SandboxSpec, choose_confinement

from ..conftest import Hold

Run = Callable[[Coroutine[Any, Any, None]], None]
SOURCES = Path(agent_runtime.__file__).parents[1]
PATIENCE = 60.0
_naps = itertools.count(7001)


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.param


@pytest.fixture(params=["auto", "off"])
def confinement(request: pytest.FixtureRequest, tmp_path: Path, hold: Hold) -> Confinement:
    chosen = asyncio.run(_chosen(request.param, tmp_path, hold))
    if chosen.name == "none":
        pytest.fail(chosen.reason)
    return chosen


async def _chosen(mode: Literal["auto", "off"], data: Path, hold: Hold) -> Confinement:
    return await (hold(data) if mode == "auto" else choose_confinement("off", data))


@pytest.fixture
def box(tmp_path: Path, confinement: Confinement) -> SandboxSpec:
    work = tmp_path / "work"
    work.mkdir()
    if confinement.uid is not None:
        os.chown(work, confinement.uid, confinement.uid)
    return SandboxSpec(work, writable=(work,))


@pytest.fixture
def nap() -> str:
    """Seconds for `sleep`, by which its processes are known: no other test and no other run on this machine has it."""
    return f"{next(_naps)}.{os.getpid()}"


def living(argument: str) -> list[int]:
    """Processes whose last argument this is: the commands, not the server that starts them."""
    found = psutil.process_iter(["cmdline", "status"])
    return [
        one.pid for one in found if (one.info["cmdline"] or [""])[-1] == argument and one.info["status"] != "zombie"
    ]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


async def test_a_deadline_ends_the_whole_tree_at_once(confinement: Confinement, box: SandboxSpec, nap: str) -> None:
    tree = f"sleep {nap} & (sleep {nap} & sleep {nap}) & trap '' TERM INT; printf started; sleep {nap}"
    started = time.monotonic()
    done = await confinement.run(("bash", "-c", tree), box, timeout=1.0)
    assert time.monotonic() - started < 30, "it would be hours"
    assert (done.timed_out, done.exit_code, done.stdout) == (True, None, "started")
    wait_for(lambda: not living(nap))


def test_what_a_command_leaves_in_the_background_ends_with_it(
    run: Run, confinement: Confinement, box: SandboxSpec, nap: str
) -> None:
    async def main() -> None:
        async with asyncio.timeout(60):
            done = await confinement.run(("bash", "-c", f"sleep {nap} & echo done"), box, timeout=4)
        assert (done.stdout, done.exit_code) == ("done\n", 0)

    run(main())
    wait_for(lambda: not living(nap))


def test_a_daemon_does_not_outlive_its_command(run: Run, tmp_path: Path, hold: Hold, nap: str) -> None:
    """It leaves its session and its parents, which the process group does not survive but the namespace does."""
    held = asyncio.run(_chosen("auto", tmp_path, hold))
    if held.name != "bubblewrap":
        pytest.fail(held.reason)

    async def main() -> None:
        daemon = f"setsid -f sleep {nap}; (setsid nohup sleep {nap} >/dev/null 2>&1 &); sleep 0.1; echo done"
        work = tmp_path / "work"
        work.mkdir()
        done = await held.run(("bash", "-c", daemon), SandboxSpec(work, (work,)), timeout=5)
        assert done.stdout == "done\n"

    run(main())
    wait_for(lambda: not living(nap))


def test_a_cancel_ends_the_whole_tree(run: Run, confinement: Confinement, box: SandboxSpec, nap: str) -> None:
    async def main() -> None:
        call = asyncio.create_task(confinement.run(("bash", "-c", f"sleep {nap} & sleep {nap}"), box, timeout=60))
        while len(living(nap)) < 2:
            await asyncio.sleep(0.01)
        call.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert time.monotonic() - started < 30, "it would be a minute"

    run(main())
    wait_for(lambda: not living(nap))


def test_a_cancel_while_it_starts_leaves_nothing(
    run: Run, confinement: Confinement, box: SandboxSpec, nap: str
) -> None:
    async def main() -> None:
        for turns in range(6):
            call = asyncio.create_task(confinement.run(("sleep", nap), box, timeout=60))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    before = len(os.listdir("/proc/self/fd"))
    run(main())
    wait_for(lambda: not living(nap))
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def test_a_cancel_at_any_moment_of_its_start_leaves_nothing(
    run: Run, confinement: Confinement, box: SandboxSpec, nap: str
) -> None:
    """Namespaces take milliseconds to set up; what is only half there must die as well."""

    async def main() -> None:
        for moment in range(50):
            call = asyncio.create_task(confinement.run(("sleep", nap), box, timeout=60))
            await asyncio.sleep(moment * 0.0003)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    run(main())
    wait_for(lambda: not living(nap))


@pytest.mark.slow
def test_descriptors_do_not_pile_up(run: Run, confinement: Confinement, box: SandboxSpec) -> None:
    async def main() -> None:
        await confinement.run(("true",), box, timeout=60)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            await confinement.run(("bash", "-c", "echo; echo >&2"), box, timeout=60)
        assert len(os.listdir("/proc/self/fd")) <= before

    run(main())


def test_a_signal_shows_in_the_exit_code(run: Run, confinement: Confinement, box: SandboxSpec) -> None:
    async def main() -> None:
        done = await confinement.run(("bash", "-c", "kill -9 $$"), box, timeout=60)
        assert (done.exit_code, done.timed_out) == (128 + signal.SIGKILL, False)

    run(main())


SERVER = """
import asyncio, sys
from pathlib import Path
import uvloop
from agent_runtime.sandbox import SandboxSpec, choose_confinement

async def main():
    data, work = Path(sys.argv[1]), Path(sys.argv[1]) / "work"
    confinement = await choose_confinement(sys.argv[3], data)
    command = "sleep {nap} & (sleep {nap} & sleep {nap}) & sleep {nap}".format(nap=sys.argv[2])
    await confinement.run(("bash", "-c", command), SandboxSpec(work, (work,)), timeout=60)

uvloop.run(main())
"""


def test_commands_die_with_a_server_that_is_killed(
    confinement: Confinement, box: SandboxSpec, tmp_path: Path, nap: str
) -> None:
    mode = "off" if confinement.name == "off" else "auto"
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVER), str(tmp_path), nap, mode], cwd=SOURCES
    ) as server:
        wait_for(lambda: len(living(nap)) == 4)
        server.kill()
        server.wait(PATIENCE)
        wait_for(lambda: not living(nap))


BUSY = """
import asyncio, sys
from pathlib import Path
from agent_runtime.sandbox import SandboxSpec, choose_confinement

async def start(confinement, work, delay):
    while True:
        await asyncio.sleep(delay)
        await confinement.run(("sleep", sys.argv[2]), SandboxSpec(work, (work,)), timeout=0.02)

async def main():
    data, work = Path(sys.argv[1]), Path(sys.argv[1]) / "work"
    confinement = await choose_confinement(sys.argv[3], data)
    print("busy", flush=True)
    await asyncio.gather(*(start(confinement, work, n * 0.002) for n in range(4)))

asyncio.run(main())
"""


def test_commands_that_are_being_started_die_with_the_server_too(
    confinement: Confinement, box: SandboxSpec, tmp_path: Path, nap: str
) -> None:
    argv = [sys.executable, "-c", BUSY, str(tmp_path), nap, "off" if confinement.name == "off" else "auto"]
    servers = [subprocess.Popen(argv, cwd=SOURCES, stdout=subprocess.PIPE) for _ in range(4)]
    for number, server in enumerate(servers):
        assert server.stdout is not None
        assert server.stdout.readline() == b"busy\n"
        time.sleep(0.03 + number * 0.003)
        server.kill()
        server.wait(PATIENCE)
        server.stdout.close()
    wait_for(lambda: not living(nap))


USER = """
import asyncio, sys
sys.path[:0] = {paths!r}
from pathlib import Path
from agent_runtime.sandbox import SandboxSpec, choose_confinement

async def main():
    data, work = Path(sys.argv[1]), Path(sys.argv[1]) / "work"
    work.mkdir()
    confinement = await choose_confinement("required", data)
    look = "cat ../secret /tmp/*/secret; cat /proc/1/environ | tr '\\\\0' ' '"
    command = f"id -u; touch made; touch /usr/x /etc/x; {{look}}; unshare -Ur true"
    done = await confinement.run(("bash", "-c", command), SandboxSpec(work, (work,)), timeout=60)
    print(confinement.uid, done.stdout, done.stderr)

asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="this is about the other case")
def test_a_server_that_is_not_root_holds_its_commands_as_well() -> None:
    """Through a user namespace. Run by the system's Python, because another user may not see the one of the tests."""
    python = shutil.which("python3", path="/usr/bin")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if (
        python is None
        or version not in subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout
    ):
        pytest.skip(f"there is no system Python {version}")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    as_other = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
    if subprocess.run((*as_other, "ls", str(SOURCES), packages), capture_output=True, check=False).returncode:
        pytest.skip("this checkout lies where other users cannot read it")
    data = Path("/tmp") / f"agent-runtime-user-{os.getpid()}"
    data.mkdir()
    os.chown(data, 12345, 12345)
    (data / "secret").write_text("do not tell")
    try:
        code = USER.format(paths=[str(SOURCES), packages])
        argv = (*as_other, python, "-c", code, str(data))
        environment = {"PATH": "/usr/bin:/bin", "AGENT_TOKEN": "do not tell"}
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60, check=False)
        if "no confinement works here" in done.stderr:
            pytest.skip(done.stderr.splitlines()[-1])
        assert done.stdout.startswith("None 61000\n"), done.stderr
        assert "do not tell" not in done.stdout
        assert done.stdout.count("Read-only file system") == 2
        assert "Operation not permitted" in done.stdout
        assert (data / "work" / "made").stat().st_uid == 12345
    finally:
        shutil.rmtree(data)


def look_in_one_thread() -> None:
    """Have one thread do all that the loop hands to threads, in this order: `held` waits for it."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))


async def held() -> tuple[int, int]:
    """Descriptors and children of this process, without those of objects that wait to be collected, and of a thread
    that still looks at the processes of a command which has ended."""
    await asyncio.to_thread(bool)
    gc.collect()
    return len(os.listdir("/proc/self/fd")), len(psutil.Process().children())


@pytest.mark.slow
def test_commands_leave_nothing_in_the_server(run: Run, confinement: Confinement, box: SandboxSpec) -> None:
    async def one(number: int) -> None:
        match number % 4:
            case 0:
                await confinement.run(("sleep", "9"), box, timeout=0.02)
            case 1:
                await confinement.run(("no-such-program",), box, timeout=60)
            case 2:
                running = asyncio.create_task(confinement.run(("sleep", "9"), box, timeout=5))
                await asyncio.sleep(0.002 * number)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            case _:
                await confinement.run(("cat",), box, timeout=60, stdin=b"x" * 200_000)

    async def many() -> None:
        look_in_one_thread()
        await one(3)
        before = await held()
        for number in range(24):
            await one(number)
        assert await held() == before
        assert len(asyncio.all_tasks()) == 1

    run(many())


def test_a_server_without_descriptors_says_so_and_loses_none(
    run: Run, confinement: Confinement, box: SandboxSpec
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def starve() -> None:
        look_in_one_thread()
        await confinement.run(("true",), box, timeout=60)
        before = await held()
        outcomes: set[str] = set()
        try:
            for spare in range(64):
                resource.setrlimit(resource.RLIMIT_NOFILE, (before[0] - 1 + spare, hard))
                try:
                    done = await confinement.run(("true",), box, timeout=60)
                    outcomes.add(f"ended with {done.exit_code}")
                    break
                except ToolFailure as failure:
                    outcomes.add(failure.message.rpartition(": ")[2])
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert await held() == before
        assert "ended with 0" in outcomes
        assert {one.rpartition("] ")[2] for one in outcomes} == {"Too many open files", "ended with 0"}

    run(starve())


@pytest.mark.slow
def test_a_guard_of_what_has_ended_is_closed(run: Run, confinement: Confinement, box: SandboxSpec) -> None:
    async def endless() -> str:
        return await asyncio.Event().wait() and ""

    async def outrun() -> None:
        for _ in range(20):
            async with await confinement.spawn(("true",), box) as child:
                while child.running:
                    pass  # the loop is not let go: it hears of the end and of the guard at the same time
                child.add_guard(endless())
                await child.wait()
        gc.collect()

    run(outrun())


def test_what_cannot_be_watched_any_more_is_ended(run: Run, confinement: Confinement, box: SandboxSpec) -> None:
    async def broken() -> str:
        raise RuntimeError("no thread can be started")

    async def watch() -> None:
        async with await confinement.spawn(("sleep", "9"), box) as child:
            child.add_guard(broken())
            async with asyncio.timeout(60):
                await child.wait()
            assert child.stopped == "it could not be watched any more"

    run(watch())
