"""Commands of other boxes run as the same user where there are no namespaces, and must be out of reach all the same.

Tried on several versions of Landlock, as far as this kernel can play them: each knows more than the one before.
"""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from .test_confinements_without_namespaces import Backend, paths
from .test_confinements_without_namespaces import backend as backend  # noqa: PLC0414 - a fixture

SECRET = "sk-of-the-mcp-server"
SERVER = """
import asyncio, json, sys
from pathlib import Path
from agent_runtime.sandbox import SandboxSpec
from agent_runtime.sandbox.confinement import Confinement
from agent_runtime.sandbox.probe.probe import probe
from agent_runtime.sandbox.backends.landlock import other_user
from agent_runtime.workspace import Home

async def main():
    version, secret, attacks, manners = int(sys.argv[2]), *sys.argv[3:]
    home = Home(Path(sys.argv[1]))
    home.prepare()
    backend = other_user(home.data_dir, version)
    print(json.dumps(await probe(backend, home.data_dir)))
    confinement = Confinement(backend)
    home = home.with_owner(confinement.uid, by_path=True)
    scratch, other = home.make_scratch("ses_1"), home.make_scratch("ses_2")
    wait = ("bash", "-c", "echo precious > $NOTES; echo; exec sleep 7200")
    env = {"NOTES_TOKEN": secret, "NOTES": str(other / "notes")}
    async with await confinement.spawn(wait, SandboxSpec(other, (other,), env=env)) as neighbour:
        await neighbour.stdout.readline()
        pids = ",".join(map(str, neighbour.processes()))
        box = SandboxSpec(home.workspace, (home.workspace, scratch))
        done = await confinement.run(("python3", "-c", attacks, pids, str(other / "notes")), box, timeout=60)
        print(json.dumps([done.stdout, done.stderr, neighbour.running, (other / "notes").read_text()]))
        done = await confinement.run(("bash", "-c", manners), box, timeout=60)
        print(json.dumps([done.stdout, done.stderr]))

asyncio.run(main())
"""
ATTACKS = """
import ctypes, fcntl, os, signal, sys
libc = ctypes.CDLL(None, use_errno=True)
others, notes = [int(pid) for pid in sys.argv[1].split(",")], sys.argv[2]
TKILL, TGKILL, QUEUE, PIDFD = {"x86_64": (200, 234, 129, 424), "aarch64": (130, 131, 138, 424)}[os.uname().machine]

def reads(path):
    with open(path, "rb") as file:
        print(file.read()[:9999])

def call(*arguments):
    if libc.syscall(*arguments):
        raise OSError(ctypes.get_errno(), "refused")

def by_pipe(pid):
    reading, writing = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETOWN, pid)
    fcntl.fcntl(reading, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writing, b"x")

def attempt(tried, *arguments):
    try:
        tried(*arguments)
    except OSError:
        return
    if tried is not by_pipe:  # what it does shows later
        print(tried.__name__, *arguments, file=sys.stderr)

for pid in others:
    for name in ("environ", "cmdline", "maps", "mem", "stat"):
        attempt(reads, f"/proc/{pid}/{name}")
    for name in ("cwd", "exe", "root", "fd/0"):
        attempt(os.readlink, f"/proc/{pid}/{name}")
    for target in (pid, -os.getpgid(pid)):
        attempt(os.kill, target, 0)
        attempt(os.kill, target, 9)
        attempt(by_pipe, target)
    attempt(call, TKILL, pid, 9)
    attempt(call, TGKILL, pid, pid, 9)
    attempt(call, QUEUE, pid, 9, ctypes.create_string_buffer(128))
    attempt(lambda: call(PIDFD, os.pidfd_open(pid), 9, None, 0))
attempt(os.truncate, notes, 0)
attempt(os.link, notes, "linked")
attempt(os.rename, notes, "renamed")
attempt(reads, notes)
try:
    os.kill(-1, 9)
except OSError:
    pass
"""
MANNERS = """
timeout 0.1 sleep 9; echo timeout $?
sleep 9 & kill $!; wait $!; echo child $?
set -m; (sleep 9; true) & kill -9 %1; wait %1; echo group $?; set +m
(sleep 0.3 & echo $! > orphan); kill -0 $(cat orphan) && echo orphan; kill -9 $(cat orphan)
kill -0 4194304 2>&1 | grep -c 'No such process'
python3 -c 'import os; os.abort()'; echo abort $?
python3 -c 'import threading, signal; signal.pthread_kill(threading.get_ident(), 15)'; echo thread $?
python3 -c 'import os, time; end = time.time() + 0.5; n = 0
while time.time() < end: os.kill(0, 0); n += 1
print("storm", n < 1500 or "{version}" == "6")'
bash -c 'trap "exit 7" TERM; kill 0; sleep 9'; echo nobody comes here
"""


@pytest.mark.parametrize("backend", ["another user"], indirect=True)
@pytest.mark.parametrize("version", [1, 5, 6])
def test_a_command_reaches_what_it_has_started_itself_and_nothing_of_others(backend: Backend, version: int) -> None:
    environment = {**os.environ, "PYTHONPATH": paths(), "PYTHONDONTWRITEBYTECODE": "1"}
    argv = (
        "/usr/bin/python3",
        "-c",
        SERVER,
        str(backend.data),
        str(version),
        SECRET,
        ATTACKS,
        MANNERS.format(version=version),
    )
    told = subprocess.check_output(argv, env=environment, text=True, timeout=60, cwd="/").splitlines()
    faults, attacked, behaved = map(json.loads, told)
    assert faults == []
    assert attacked == ["", "", True, "precious\n"], "nothing read, nothing done, the other one alive, its file whole"
    lines = "timeout 124,child 143,group 137,orphan,1,abort 134,thread 143,storm True"
    assert behaved[0].strip().split("\n") == lines.split(","), behaved[1]
