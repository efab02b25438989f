"""The backends that need no namespaces, held to what they promise: a server of its own, whose commands attack it.

It is run by the system's Python, because another user may not see the one of the tests.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .test_process_lifetime import SOURCES, living, wait_for

pytestmark = pytest.mark.slow

NOBODY = 65534
SECRET = "sk-do-not-tell"
SERVER = """
import asyncio, json, os, sys
from dataclasses import asdict
from pathlib import Path
from agent_runtime.sandbox import SandboxSpec, SandboxLimits, Quota, choose_confinement
from agent_runtime.sandbox.probe.select import BACKENDS
from agent_runtime.sandbox.confinement import Confinement
from agent_runtime.workspace import Home

async def main():
    title, tries = sys.argv[2], json.loads(sys.argv[3])
    home = Home(Path(sys.argv[1]))
    home.prepare()
    confinement = await choose_confinement("required", home.data_dir, [(title, BACKENDS[title])])
    home = home.with_owner(confinement.uid, by_path=confinement.by_path)
    scratch, other = home.make_scratch("ses_1"), home.make_scratch("ses_2")
    (other / "notes").write_text("sk-do-not-tell")
    os.chmod(home.database, 0o644) if not confinement.by_path else None
    env = {"SCRATCH": str(scratch), "OTHER": str(other), "DATA": str(home.data_dir), "SERVER": str(os.getpid())}
    def box(readable=(), **limits):
        size = limits.pop("quota", 2**30)
        quotas = (Quota.for_size(scratch, size, "the scratch folder"),)
        return SandboxSpec(home.workspace, (home.workspace, scratch), readable, env, SandboxLimits(**limits), quotas)
    print(json.dumps([confinement.name, confinement.uid, os.getpid()]), flush=True)
    for one in tries:
        readable = (home.staged / "build",) if one.get("skills") else ()
        done = await confinement.run(
            ("bash", "-c", one["command"]), box(readable, **one.get("limits", {})), timeout=one.get("timeout", 10)
        )
        print(json.dumps(asdict(done)), flush=True)

asyncio.run(main())
"""


@dataclass(frozen=True)
class Backend:
    title: str
    name: str
    server: int
    """The user that the server runs as."""
    uid: int
    """The user that its commands run as."""
    data: Path

    def start(self, *tries: dict[str, Any]) -> subprocess.Popen[str]:
        become = () if self.server == 0 else ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        return subprocess.Popen(
            (*become, "/usr/bin/python3", "-c", SERVER, str(self.data), self.title, json.dumps(tries)),
            env={**os.environ, "PYTHONPATH": paths(), "PYTHONDONTWRITEBYTECODE": "1", "AGENT_TOKEN": SECRET},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )

    def run(self, *tries: dict[str, Any]) -> list[dict[str, Any]]:
        """What became of these commands."""
        with self.start(*tries) as server:
            printed, errors = server.communicate(timeout=60)
        assert server.returncode == 0, errors
        told, *done = map(json.loads, printed.splitlines())
        assert told[0] == self.name
        return done

    def bash(self, command: str, **more: Any) -> str:
        (done,) = self.run({"command": command, **more})
        assert not done["timed_out"]
        return done["stdout"] + done["stderr"]


def paths() -> str:
    return os.pathsep.join((str(SOURCES), next(path for path in sys.path if path.endswith("site-packages"))))


@pytest.fixture(params=["another user", "the same user under Landlock"])
def backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if os.geteuid() != 0:
        pytest.skip("only root can be two users")
    version = f"Python {sys.version_info.major}.{sys.version_info.minor}."
    python = shutil.which("python3", path="/usr/bin")
    if python is None or not subprocess.check_output([python, "-V"], text=True).startswith(version):
        pytest.skip(f"there is no system {version}x")
    as_nobody = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    if subprocess.run((*as_nobody, "ls", *paths().split(":")), capture_output=True, check=False).returncode:
        pytest.skip("this checkout lies where other users cannot read it")
    data = Path("/tmp") / f"agent-runtime-backends-{os.getpid()}"
    data.mkdir(mode=0o700)
    (data / "agent.db").write_text(SECRET)
    for folder in (data / "staged", data / "staged" / "build"):
        folder.mkdir(mode=0o755)
    (data / "staged" / "build" / "plugin.py").write_text(SECRET)
    if request.param == "another user":
        made = Backend(request.param, "uid", 0, 61000, data)
    else:
        made = Backend(request.param, "landlock", NOBODY, NOBODY, data)
        for path in (data, *data.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
    try:
        yield made
    finally:
        shutil.rmtree(data)


def test_commands_work(backend: Backend) -> None:
    printed = backend.bash(
        "set -e; id -u; pwd; echo mine > made; cat made; cat <(echo pipe); echo x > $TMPDIR/x; cd $SCRATCH; touch y; "
        'python3 -c \'import subprocess, ctypes; print(subprocess.check_output(["echo", "child"]).decode())\'; '
        "git init -q $SCRATCH/repo; ls -A $SCRATCH | wc -l; nice"
    )
    assert printed.split() == [str(backend.uid), f"{backend.data}/workspace", "mine", "pipe", "child", "3", "19"]
    assert (backend.data / "workspace" / "made").stat().st_uid == backend.uid
    left = sorted(path.name for path in (backend.data / "scratch" / "ses_1").iterdir())
    assert left == ["repo", "y"], "the folder for temporary files is gone"


def test_a_skill_s_worker_can_tell_how_it_stands(backend: Backend) -> None:
    """Although nothing of /proc but a few facts of the machine can be read."""
    posture = SOURCES / "agent_runtime/skills/worker/process_state.py"
    look = (
        "import importlib.util as u; s = u.spec_from_file_location('posture', sys.argv[1]); m = u.module_from_spec(s); "
        "s.loader.exec_module(m); p = m.ProcessSnapshot(); before = p.is_unchanged(); "
        "f = [open('/dev/null') for _ in range(70)]; "
        "print(before, p.is_unchanged())"
    )
    assert backend.bash(f'python3 -c "import sys; {look}" {posture}').split() == ["True", "False"]


def test_nothing_else_can_be_read(backend: Backend) -> None:
    attempts = (
        "cat $DATA/agent.db; cat $DATA/staged/*/*; cat $DATA/staged/build/plugin.py; cat $OTHER/notes; "
        "ls $DATA $OTHER $DATA/scratch; cat /proc/$SERVER/environ /proc/$PPID/environ /proc/$SERVER/cmdline; "
        "ls /proc /root /home /etc /tmp /; cat /etc/shadow; head -c 9 /dev/mem; ln -s $OTHER up; cat up/notes; "
        "cat /proc/self/root/etc/passwd; ln $OTHER/notes hard; cat hard"
    )
    printed = backend.bash(attempts)
    assert SECRET not in printed
    assert not [line for line in printed.splitlines() if not re.search("denied|permitted|No such|cross-device", line)]


def test_nothing_else_can_be_written(backend: Backend) -> None:
    backend.bash(
        "for f in $DATA/x $DATA/agent.db $OTHER/x $OTHER/notes $DATA/skills/x $DATA/staged/x $DATA/staged/build/x "
        "/tmp/planted-$$ /dev/shm/planted-$$; do "
        "echo x > $f; rm -f $f; done; mv $DATA/workspace $DATA/away; chmod 777 $DATA $DATA/agent.db; rmdir $OTHER; "
        'truncate -s 0 $DATA/agent.db; python3 -c \'import os; os.truncate(os.environ["DATA"] + "/agent.db", 0)\''
    )
    there = ["agent.db", "agents", "scratch", "skill-environments", "skills", "spare-scratch", "staged", "workspace"]
    assert sorted(path.name for path in backend.data.iterdir()) == there
    assert (backend.data / "agent.db").read_text() == SECRET
    assert (backend.data / "agent.db").stat().st_mode & 0o002 == 0
    assert backend.data.stat().st_mode & 0o777 == (0o711 if backend.name == "uid" else 0o700)
    assert (backend.data / "scratch" / "ses_2" / "notes").read_text() == SECRET


def test_skills_can_be_read_by_their_worker_only(backend: Backend) -> None:
    tries = ({"command": "cat $DATA/staged/build/plugin.py", "skills": True}, {"command": "ls $DATA/staged"})
    shown, hidden = backend.run(*tries)
    assert shown["stdout"] == SECRET
    assert "denied" in hidden["stderr"]


def test_there_is_no_network_of_any_kind(backend: Backend) -> None:
    code = "import socket\nfor family in (1, 2, 10, 16, 17, 38, 40):\n try: socket.socket(family, 1); print(family)\n"
    code += " except OSError as error: print(error.errno)\nsocket.socketpair()"
    assert set(backend.bash(f'python3 -c "{code}"').split()) == {"97"}


PROCESSES = """
import ctypes, os, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
server = int(os.environ["SERVER"])
for attempt in (
    lambda: os.kill(server, 9), lambda: os.kill(os.getppid(), 9),
    lambda: resource.prlimit(server, resource.RLIMIT_CPU, (1, 1)),
    lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)),
    lambda: os.setpriority(os.PRIO_PROCESS, server, 19), lambda: os.sched_setaffinity(server, {0}),
    lambda: os.sched_setscheduler(server, os.SCHED_IDLE, os.sched_param(0)),
    lambda: open(f"/proc/{server}/mem", "rb"), lambda: open(f"/proc/{os.getppid()}/mem", "rb"),
):
    try:
        attempt(); print("done")
    except OSError:
        print("refused")
for call in (101, 310, 438, 425, 165, 250, 29, 64, 68, 240, 319):
    print(f"done {call}" if libc.syscall(call, 0, 0, 0, 0, 0) >= 0 else "refused")
"""


def test_other_processes_and_the_kernel_s_levers_are_out_of_reach(backend: Backend) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("the numbers are those of another processor")
    first, second = backend.run({"command": f"python3 -c '{PROCESSES}'"}, {"command": "kill -9 -1; echo alive"})
    assert set(first["stdout"].split()) == {"refused"}, first
    assert second["stdout"] == "alive\n"


TREE = "setsid sleep {0} & (setsid nohup sleep {0} >/dev/null 2>&1 &); sleep {0} & (sleep {0} & sleep {0}) & "


def test_nothing_outlives_its_command(backend: Backend) -> None:
    ended, killed = backend.run(
        {"command": TREE.format("7101") + "sleep 0.2; echo over"},
        {"command": TREE.format("7102") + "trap '' TERM; echo begun; sleep 7102", "timeout": 0.5},
    )
    assert (ended["stdout"], ended["exit_code"]) == ("over\n", 0)
    assert (killed["stdout"], killed["timed_out"]) == ("begun\n", True)
    assert not living("7101")
    assert not living("7102")


def test_a_signal_shows_in_the_exit_code(backend: Backend) -> None:
    killed, missing = backend.run({"command": "kill -9 $$"}, {"command": "exec no-such-program"})
    assert killed["exit_code"] == 128 + signal.SIGKILL
    assert missing["exit_code"] == 127


def test_commands_die_with_a_server_that_is_killed(backend: Backend) -> None:
    with backend.start({"command": TREE.format("7103") + "sleep 7103", "timeout": 60}) as server:
        wait_for(lambda: len(living("7103")) == 6)
        assert server.stdout is not None
        os.kill(json.loads(server.stdout.readline())[2], signal.SIGKILL)
        wait_for(lambda: not living("7103"))


def test_bounds_hold(backend: Backend) -> None:
    forks, hoard, fill, delete = backend.run(
        {"command": "bomb() { bomb | bomb & }; while :; do bomb 2>/dev/null; done", "timeout": 2},
        {
            "command": "for i in 1 2 3 4; do python3 -c 'x = b\"x\" * 2**26; import time; time.sleep(9)' & done; wait",
            "limits": {"total_memory": 150 * 2**20},
        },
        {
            "command": "while :; do i=$((i+1)); head -c 9M /dev/zero > $SCRATCH/f$i; done",
            "limits": {"quota": 40 * 2**20},
        },
        {"command": "rm $SCRATCH/f*; echo x > $SCRATCH/y; echo deleted", "limits": {"quota": 40 * 2**20}},
    )
    assert forks["timed_out"] or forks["stopped"]
    assert "of memory together" in hoard["stopped"]
    assert fill["stopped"].startswith("the scratch folder holds")
    assert "Until enough is deleted nothing can be written" in delete["notice"]
    assert (backend.data / "scratch" / "ses_1" / "y").stat().st_size == 0
    assert not list((backend.data / "scratch" / "ses_1").glob("f*"))


def test_room_is_not_reserved_and_no_program_runs_as_its_owner(backend: Backend) -> None:
    command = "fallocate -l 9M f; cp /bin/true a; chmod 4755 a; chmod 2755 a; install -m 4755 /bin/true b; "
    command += "prlimit --pid 1 -n9"
    printed = backend.bash(command)
    assert "Operation not supported" in printed
    assert printed.count("Operation not permitted") >= 4, printed
    assert not [path for path in (backend.data / "workspace").iterdir() if path.stat().st_mode & 0o6000]


def test_attributes_of_what_is_not_one_s_own_stay(backend: Backend) -> None:
    backend.bash('python3 -c \'import os; os.setxattr(os.environ["DATA"] + "/agent.db", "user.x", b"x")\'')
    assert os.listxattr(backend.data / "agent.db") == []


def test_a_proxy_cannot_be_had(backend: Backend) -> None:
    from agent_runtime.errors import ToolFailure
    from agent_runtime.sandbox import SandboxSpec
    from agent_runtime.sandbox.backends.landlock import LandlockBackend

    with pytest.raises(ToolFailure, match="commands have no network under this confinement"):
        LandlockBackend("uid", b"", 0, 61000).launch(
            ("true",), SandboxSpec(backend.data, network=backend.data / "proxy")
        )


@pytest.mark.parametrize("backend", ["another user"], indirect=True)
def test_without_landlock_another_user_is_not_enough(backend: Backend) -> None:
    from agent_runtime.sandbox.backends.landlock import other_user
    from agent_runtime.sandbox.errors import BackendUnavailable

    with pytest.raises(BackendUnavailable, match="commands would read each other's files and secrets"):
        other_user(backend.data, 0)
