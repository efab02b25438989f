"""A process whose event loop stands still ends, whatever keeps it there; one that is paused as a whole does not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest

PATIENCE = 60.0
LIMIT = 2
PROGRAM = f"""
import asyncio, resource, signal, sys, threading, time
import uvloop
from agent_common.http import end_if_stalled

def stand_still(*_):
    time.sleep(3600)

def run_out_of_memory():
    kept, size = [], 1 << 20
    resource.setrlimit(resource.RLIMIT_DATA, (64 << 20, 64 << 20))
    while True:
        try:
            kept.append(bytearray(size) if size else [])
        except MemoryError:
            size //= 2

async def serve(kind):
    end_if_stalled("agent", {LIMIT})
    signal.signal(signal.SIGUSR1, stand_still)
    print("ready", flush=True)
    if kind == "memory":
        run_out_of_memory()
    elif kind == "thread":
        threading.Thread(target=stand_still).start()
    else:
        await asyncio.sleep(3600)

uvloop.run(serve(sys.argv[1]))
"""


@contextmanager
def running(kind: str) -> Generator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-c", PROGRAM, kind]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("kind", "stack"),
    [("callback", b"in stand_still"), ("memory", b"in run_out_of_memory"), ("thread", b"in _shutdown")],
)
def test_it_ends_and_says_where_it_stood(kind: str, stack: bytes) -> None:
    with running(kind) as process:
        if kind == "callback":
            process.send_signal(signal.SIGUSR1)
        _, said = process.communicate(timeout=PATIENCE)
        assert process.returncode == 70, said
        assert said.startswith(b"agent: the event loop has stood still for 2 s, so this process ends"), said
        assert stack in said


@pytest.mark.slow
def test_it_ends_too_if_nobody_reads_what_it_says() -> None:
    with running("callback") as process:
        assert process.stderr is not None
        with open(f"/proc/{process.pid}/fd/2", "wb", 0) as pipe:
            os.set_blocking(pipe.fileno(), False)
            while pipe.write(bytes(1 << 16)):
                pass
        process.send_signal(signal.SIGUSR1)
        assert process.wait(PATIENCE) == -signal.SIGALRM


@pytest.mark.slow
def test_a_pause_of_the_whole_process_does_not_end_it() -> None:
    with running("callback") as process:
        for _ in range(3):
            process.send_signal(signal.SIGSTOP)
            time.sleep(2 * LIMIT)
            process.send_signal(signal.SIGCONT)
            time.sleep(LIMIT / 2)
        time.sleep(LIMIT)
        assert process.poll() is None
