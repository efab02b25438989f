"""What a call may leave behind, and that it is noticed; each in a process of its own, as a worker is."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import gc, json, os, resource, signal, sys, threading, types
sys.modules["strange"] = None
sys.modules["json.odd"] = types.SimpleNamespace()
from agent_runtime.skills.worker.process_state import ProcessSnapshot
posture = ProcessSnapshot()
kept = []
"""


def kept(code: str) -> str:
    program = f"{START}\n{code}\nos.write(1, str(posture.is_unchanged()).encode())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


@pytest.mark.parametrize(
    "code",
    [
        "os.chdir('/')",
        "os.umask(0o777)",
        "os.environ['NEW'] = '1'",
        "json.dumps = None",
        "sys.stdout = None",
        "sys.stdout.close(); os.dup2(os.open('/dev/null', os.O_WRONLY), 1); os.dup2(2, 1)",
        "del sys.modules['json']",
        "sys.setrecursionlimit(500)",
        "sys.settrace(lambda *_: None)",
        "gc.disable()",
        "signal.signal(signal.SIGUSR1, lambda *_: None)",
        "signal.setitimer(signal.ITIMER_REAL, 60)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})",
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
        "kept += [open(os.devnull) for _ in range(100)]",
    ],
)
def test_what_would_meet_the_next_call_is_noticed(code: str) -> None:
    assert kept(code).endswith("False")


@pytest.mark.parametrize(
    "code",
    [
        "",
        "kept += [open(os.devnull)]",
        "import decimal, sqlite3",
        "print('hello', flush=True)",
        "threading.Thread(target=dict).start()",
        "sys.path.append('/somewhere')",
    ],
)
def test_what_every_function_does_is_let_be(code: str) -> None:
    assert kept(code).endswith("True")
