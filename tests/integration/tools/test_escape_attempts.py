"""Live attempts to get out, from inside a tool call. Each one is what a model that was talked into it would try."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agent_runtime.sandbox import SandboxLimits
from agent_runtime.sandbox.backends.backend import MAX_CONFINED_PROCESSES
from agent_runtime.tools.files import glob_grep

from .conftest import House, furnish

SECRET = "sk-0123456789-do-not-tell"


@pytest.fixture
def secrets(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    """A server that has a token in its environment, a database, and a key file."""
    monkeypatch.setenv("AGENT_TOKEN", SECRET)
    house.home.database.write_text(SECRET)
    (tmp_path / "key").write_text(SECRET)
    (house.home.make_scratch("ses_other") / "notes").write_text(SECRET)
    return house


# ---------------------------------------------------------------- reading


async def test_the_environment_of_the_server_is_out_of_sight(secrets: House) -> None:
    printed = await secrets.bash("env; cat /proc/*/environ | tr '\\0' '\\n'; ps -ef")
    assert SECRET not in printed
    assert not re.search("TOKEN|AGENT_|MESH_|OPENAI", printed)


async def test_the_memory_and_files_of_other_processes_are_out_of_reach(secrets: House) -> None:
    pids = (await secrets.bash("ls /proc | grep -E '^[0-9]+$' | wc -l")).strip()
    assert int(pids) < 10, "only its own"
    assert re.search("denied|Input/output error", await secrets.bash("head -c 9 /proc/1/mem"))
    assert "No such file" in await secrets.bash(f"head -c 9 /proc/{os.getpid()}/mem")
    assert SECRET not in await secrets.bash("cat /proc/*/root/etc/* /proc/*/cwd/../* 2>/dev/null")


async def test_the_database_the_key_and_other_sessions_are_not_there(secrets: House, tmp_path: Path) -> None:
    data = secrets.home.data_dir
    for path in (secrets.home.database, tmp_path / "key", data / "scratch" / "ses_other" / "notes"):
        assert "No such file" in await secrets.bash(f"cat {path}"), path
    assert (await secrets.bash(f"ls {data} {data}/scratch")).split() == [
        *(f"{data}:", "scratch", "workspace", f"{data}/scratch:", "ses_1"),
    ]
    assert SECRET not in await secrets.bash("ln -s /proc/1/root up; cat up/root/* ../agent.db ../../key 2>/dev/null")


async def test_the_users_and_secrets_of_the_machine_are_not_shown(house: House) -> None:
    for path in ("/etc/shadow", "/etc/ssh", "/etc/machine-id", "/root/.ssh", "/home", "/var/log", "/run", "/sys/class"):
        assert "No such file" in await house.bash(f"ls {path}"), path
    assert (await house.bash("whoami; wc -l < /etc/passwd")).split() == ["agent", "3"]
    assert await house.bash("cat /proc/cmdline /proc/keys 2>/dev/null") == ""


async def test_nothing_open_in_the_server_is_handed_down(house: House) -> None:
    """Descriptors that the server itself inherited, not marked to be closed."""
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    os.set_inheritable(writing, True)
    try:
        listed = await house.bash("ls /proc/self/fd")
    finally:
        os.close(reading)
        os.close(writing)
    assert listed.split() == ["0", "1", "2", "3"], "its streams, and the folder that ls reads"


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize("folder", ["/", "/usr/bin", "/etc", "/dev", "/root", "/proc/sys/kernel"])
async def test_nothing_but_workspace_scratch_and_tmp_is_writable(house: House, folder: str) -> None:
    printed = await house.bash(f"echo x > {folder}/planted")
    assert re.search("Read-only file system|Permission denied|No such file|nonexistent", printed), printed


async def test_the_data_folder_around_the_workspace_is_not_writable(house: House) -> None:
    data = house.home.data_dir
    await house.bash(f"touch {data}/planted {data}/scratch/planted; mv ../workspace ../away; rmdir $SCRATCH")
    assert sorted(path.name for path in data.iterdir()) == [
        "agents",
        "scratch",
        "skill-environments",
        "skills",
        "spare-scratch",
        "staged",
        "workspace",
    ]
    assert [path.name for path in (data / "scratch").iterdir()] == ["ses_1"]


async def test_a_command_stays_the_first_to_go_and_the_last_to_run(house: House) -> None:
    command = "for f in oom_score_adj autogroup timerslack_ns; do (echo 0 > /proc/self/$f) 2>/dev/null; done; "
    command += "nice -n -5 nice 2>/dev/null"
    assert (await house.bash(f"{command}; cat /proc/self/oom_score_adj")).splitlines()[-2:] == ["19", "800"]


async def test_memory_that_no_process_need_hold_cannot_be_had(house: House) -> None:
    calls = {
        "memfd_create": ((319, 279), 0, 0),
        "shmget": ((29, 194), 0, 65537, 0o1600),
        "semget": ((64, 190), 0, 1, 0o1600),
        "msgget": ((68, 186), 0, 0o1600),
    }
    printed = await house.python(CALLS.format(calls=calls))
    refused = dict(line.split() for line in printed.splitlines())
    assert refused == {name: "ENOSPC" if "shmget" in name else "EPERM" for name in calls}
    small = await house.python(CALLS.format(calls={"shmget": ((29, 194), 0, 65536, 0o1600)}))
    assert int(small.split()[1]) >= 0


RESERVE = """
import fcntl, os, struct
file = os.open("reserved", os.O_CREAT | os.O_RDWR)
for what in (0x4030582A, 0x40305839):
    try: fcntl.ioctl(file, what, struct.pack("=4Q16x", 0, 0, 9 << 20, 0))
    except OSError as error: print(error.strerror)
print(os.fstat(file).st_blocks)
os.posix_fallocate(file, 0, 1 << 20)
print(os.fstat(file).st_size)
"""


async def test_room_cannot_be_reserved_without_writing(house: House) -> None:
    printed = await house.bash("fallocate -l 9M f 2>&1 | grep -c 'not supported'; stat -c %b f")
    assert printed.split() == ["1", "0"]
    printed = await house.python(RESERVE)
    assert printed.splitlines() == [*["Operation not supported"] * 2, "0", str(2**20)], "the library writes instead"


@pytest.mark.slow
async def test_no_program_is_left_that_runs_as_its_owner(house: House) -> None:
    ways = "cp /bin/true a; chmod u+s a; chmod 2755 a; install -m 4755 /bin/true b; mkdir -m 6755 c; umask 0; cp a d"
    assert (await house.bash(ways)).count("Operation not permitted") == 4
    assert await house.bash("find . -perm /6000") == ""
    assert (await house.bash("mkdir t; chmod 1777 t; cp -a t u; stat -c %a u")).strip() == "1777"


async def test_programs_that_ask_for_more_than_they_need_go_on(house: House) -> None:
    """Those that reserve room, keep modes or open files in the newest way."""
    everyday = "git init -q a; cd a; git config user.email a@b; git config user.name a; echo 1 > f; git add f; "
    everyday += (
        "git commit -qm first; git gc -q; git clone -q . ../b; cd ..; tar cf t.tar b; mkdir c; tar xpf t.tar -C c; "
    )
    everyday += (
        "cp -a --reflink=auto c d; cp --sparse=always t.tar u; dd if=t.tar of=v status=none; diff -r b d/b && cmp u v"
    )
    assert await house.bash(everyday) == ""
    base = "import shutil, sqlite3; shutil.copytree('b', 'e'); shutil.make_archive('z', 'gztar', 'e'); "
    base += (
        "shutil.unpack_archive('z.tar.gz', 'f'); db = sqlite3.connect('db'); db.execute('pragma journal_mode=wal'); "
    )
    base += "db.execute('create table t(c)'); db.execute('insert into t values(zeroblob(99999))'); db.commit(); "
    base += "db.execute('vacuum'); print('done')"
    assert await house.python(base) == "done\n"


async def test_the_kernel_s_settings_are_not_writable(house: House) -> None:
    """A process without capabilities that still is root could do this."""
    switches = "/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sysrq-trigger"
    assert await house.bash(f"for f in {switches}; do test -w $f && echo $f; done") == ""


async def test_a_link_swapped_in_while_the_server_works_leads_nowhere(house: House, tmp_path: Path) -> None:
    """The server writes and reads a path that a command turns into a link and back as fast as it can."""
    outside = tmp_path / "outside"
    outside.write_text(SECRET)
    swapping = asyncio.create_task(
        house.bash(
            f"mkdir real; echo mine > real/f; ln -s {tmp_path} evil; ln -s {outside} link; touch ready; "
            "while :; do ln -sfn evil d; mv -T link f 2>/dev/null; ln -sfn real d; "
            f"rm -f f; echo mine > f; ln -s {outside} link 2>/dev/null; done",
            timeout_ms=2500,
        )
    )
    ready = house.home.workspace / "ready"
    while not ready.exists():
        await asyncio.sleep(0.01)
    seen: set[str] = set()
    while not swapping.done():
        for path in ("f", "d/outside"):
            await house.call("write", path=path, content="written by the server")
            result = await house.call("read", path=path)
            seen.add(str(result.envelope()))
            await asyncio.sleep(0)  # a path that is refused at once leaves no room for the end of the command
    await swapping
    assert outside.read_text() == SECRET
    assert len(seen) > 1, "the race was on"
    assert not [text for text in seen if SECRET in text]


async def test_a_pipe_in_place_of_a_file_does_not_hold_the_server_up(house: House) -> None:
    await house.bash("mkfifo pipe")
    async with asyncio.timeout(60):
        result = await house.call("read", path="pipe")
    assert result.error_text == "pipe is not a regular file"


# ---------------------------------------------------------------- privileges


async def test_commands_are_nobody_and_can_become_nobody_else(house: House) -> None:
    status = await house.bash("cat /proc/self/status")
    assert int(re.search(r"CapEff:\t(\w+)", status)[1], 16) == 0  # type: ignore[index]
    assert int(re.search(r"CapBnd:\t(\w+)", status)[1], 16) == 0  # type: ignore[index]
    assert "NoNewPrivs:\t1" in status
    assert "Seccomp:\t2" in status
    if os.geteuid() == 0:
        child = asyncio.create_task(house.bash("sleep 0.64210; true"))
        process = await _process("0.64210")
        assert process.uids().real == house.confinement.uid != 0, "in the kernel's eyes too"
        await child
    assert "uid=0" not in await house.bash("sudo -n id; su -c id; setpriv --reuid 0 id; unshare -Ur id")


async def _process(argument: str) -> psutil.Process:
    async with asyncio.timeout(60):
        while True:
            for process in psutil.process_iter(["cmdline"]):
                if process.info["cmdline"] and process.info["cmdline"][-1] == argument:
                    return process
            await asyncio.sleep(0.005)


CALLS = """
import ctypes, errno, os, platform
libc = ctypes.CDLL(None, use_errno=True)
numbers = {calls}
column = 0 if platform.machine() == "x86_64" else 1
for name, (number, *arguments) in numbers.items():
    ctypes.set_errno(0)
    result = libc.syscall(number[column], *arguments)
    print(name, result if result >= 0 else errno.errorcode[ctypes.get_errno()])
"""


async def test_the_levers_of_the_kernel_are_taken_away(house: House) -> None:
    calls = {
        "ptrace": ((101, 117), 0, 0, 0, 0),
        "mount": ((165, 40), 0, 0, 0, 0, 0),
        "unshare_user": ((272, 97), 0x10000000),
        "setns": ((308, 268), 0, 0),
        "keyctl": ((250, 219), 0, 0),
        "bpf": ((321, 280), 0, 0, 0),
        "userfaultfd": ((323, 282), 0),
        "perf_event_open": ((298, 241), 0, 0, -1, -1, 0),
        "io_uring_setup": ((425, 425), 1, 0),
        "process_vm_readv": ((310, 270), 1, 0, 0, 0, 0, 0),
        "pidfd_getfd": ((438, 438), 0, 0, 0),
        "clone_user": ((56, 220), 0x10000000, 0, 0, 0, 0),
        "clone3": ((435, 435), 0, 0),
    }
    printed = await house.python(CALLS.format(calls=calls))
    refused = dict(line.split() for line in printed.splitlines())
    assert refused.pop("clone3") == "ENOSYS"
    assert refused == {name: "EPERM" for name in calls if name != "clone3"}


# ---------------------------------------------------------------- network

SOCKETS = """
import socket
for name, family, kind in {families}:
    try:
        socket.socket(family, kind)
        print(name, "open")
    except OSError as error:
        print(name, error.errno)
"""


async def test_vsock_and_other_exotic_sockets_do_not_exist(house: House) -> None:
    families = [
        ("vsock", 40, 1), ("vsock_dgram", 40, 2), ("packet", 17, 3), ("alg", 38, 5), ("xdp", 44, 3),
        ("bluetooth", 31, 3), ("can", 29, 3), ("tipc", 30, 1),
    ]  # fmt: skip
    printed = await house.python(SOCKETS.format(families=families))
    assert set(printed.split()[1::2]) == {"97"}, printed
    assert await house.python(SOCKETS.format(families=[("unix", 1, 1), ("inet", 2, 1)])) == "unix open\ninet open\n"


@pytest.fixture
def server() -> Iterator[int]:
    """A server on the machine's loopback that greets."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"welcome")

        thread = threading.Thread(target=greet)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


async def test_neither_the_machine_s_loopback_nor_any_network_is_there(house: House, server: int) -> None:
    for target in (f"127.0.0.1/{server}", "169.254.169.254/80", "192.0.2.1/80"):
        printed = await house.bash(f"exec 3<>/dev/tcp/{target} && cat <&3")
        assert re.search("refused|unreachable", printed), printed
        assert "welcome" not in printed


async def test_names_in_the_abstract_space_of_unix_sockets_are_its_own(house: House) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0agent-runtime-test")
        listener.listen()
        printed = await house.python("import socket; socket.socket(socket.AF_UNIX).connect('\\0agent-runtime-test')")
    assert "ConnectionRefusedError" in printed


# ---------------------------------------------------------------- resources


@pytest.mark.slow
async def test_a_fork_bomb_stays_small_and_leaves_nothing(house: House) -> None:
    command = "bomb() { bomb | bomb & }; while :; do bomb 2>/dev/null; done"

    def fragments() -> int:
        return sum(command in (process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"]))

    result = await house.call("bash", command=command, timeout_ms=10_000)
    assert "it started more than 100 processes and threads" in str(result.data), result
    async with asyncio.timeout(60):
        while fragments():
            await asyncio.sleep(0.01)


async def gone(argument: str) -> bool:
    """Whether no process with this last argument is left, after at most two seconds."""
    for _ in range(200):
        if not any((process.info["cmdline"] or [""])[-1] == argument for process in psutil.process_iter(["cmdline"])):
            return True
        await asyncio.sleep(0.01)
    return False


async def test_memory_is_bounded(house: House) -> None:
    assert "MemoryError" in await house.python("bytearray(5 * 2**30)")
    shared = "import mmap; mmap.mmap(-1, 20 * 2**30)"
    assert "OSError" in await house.python(shared), "also memory that is shared"


@pytest.mark.slow
async def test_files_are_bounded_also_those_in_memory(house: House) -> None:
    assert "File size limit exceeded" in await house.bash("head -c 600M /dev/zero > big; ls -l big")
    assert "No space left on device" in await house.bash("head -c 300M /dev/zero > /tmp/big")
    assert "No space left on device" in await house.bash("head -c 300M /dev/zero > /dev/shm/big")
    assert "Read-only" in await house.bash("touch /dev/big")


async def test_output_without_end_costs_no_memory(house: House) -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    result = await house.call("bash", command="yes & yes >&2", timeout_ms=1000)
    assert result.data["timed_out"]
    assert process.memory_info().rss - before < 60 * 2**20
    assert result.metadata["truncated"]
    assert os.stat(result.metadata["output_path"]).st_size == 10 * 2**20
    assert len(result.data["stdout"]) + len(result.data["stderr"]) < 201 * 1024


async def test_other_sessions_commands_are_strangers(house: House) -> None:
    other = furnish(house.home, house.confinement, session="ses_2")
    running = asyncio.create_task(other.bash("echo secret > $SCRATCH/x; sleep 0.3"))
    printed = await house.bash("ps -ef | grep -c 'sleep 0.3'; ls $SCRATCH/..; kill -9 -1")
    assert "ses_2" not in printed
    assert await running == "", "it was not killed"


async def test_a_search_that_is_cancelled_ends_its_process(house: House) -> None:
    program = house.home.workspace / "endless.py"
    program.write_text("while True: pass")
    slow = glob_grep.grep_tool(glob_grep.FileSearch(house.confinement, program=program))

    async def find() -> None:
        await slow.run({"pattern": "x"}, house.context)

    finding = asyncio.create_task(find())
    await asyncio.sleep(0.3)
    assert not finding.done()
    finding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await finding
    assert await gone(str(program))


async def test_the_limits_of_a_box_reach_the_command(house: House) -> None:
    printed = await house.bash("ulimit -u -n -c -d | awk '{print $NF}'")
    defaults = SandboxLimits()
    assert printed.split() == [str(MAX_CONFINED_PROCESSES), str(defaults.open_files), "0", str(defaults.memory // 1024)]
