"""How soon a guest can be given work, beside the least that Python and FastAPI need in the same guest."""

from __future__ import annotations

from pathlib import Path

import pytest

from .house import House
from .machine import HOST, Took, booted

pytestmark = pytest.mark.timeout(600)
MOST = 2.2
"""Times what FastAPI adds to a boot with idle Python, whose own time is the kernel's and changes from day to day."""
ROUNDS = 4
IDLE = f"""
import socket, time
host = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
host.connect((2, {HOST}))
host.sendall(b'{{"answer": ""}}\\n')
time.sleep(600)
"""
BARE = f"""
import json, socket, threading, time
import uvicorn
from fastapi import FastAPI

app = FastAPI()

@app.get("/")
async def root() -> dict:
    return {{"hello": "world"}}

def ask():
    while True:
        try:
            with socket.create_connection(("127.0.0.1", 8400)) as face:
                face.sendall(b"GET / HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n")
                answer = face.recv(4096).decode()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            break
    host = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    host.connect((2, {HOST}))
    host.sendall(json.dumps({{"answer": answer}}).encode() + b"\\n")
    time.sleep(600)

threading.Thread(target=ask, daemon=True).start()
uvicorn.run(app, port=8400, log_level="warning")
"""


async def until(folder: Path, program: str, answer: str) -> Took:
    """The program's word."""
    async with booted(folder, program) as machine:
        assert machine.said["answer"].startswith(answer)
        return machine.took


async def test_ready_comes_soon(house: House, tmp_path: Path) -> None:
    """An emulated machine changes its pace within minutes, so a boot is compared with those just before it."""
    fresh = House(house.host, house.provider, "fresh")  # no skills to load, nothing to take up
    for round_ in range(ROUNDS):
        idle = await until(tmp_path / f"idle-{round_}", IDLE, "")
        bare, ready = await until(tmp_path / f"bare-{round_}", BARE, "HTTP/1.1 200"), booted_house(fresh)
        tell(idle, bare, ready)
        if soon(idle, bare, ready):
            return
    pytest.fail("READY comes too late")


def soon(idle: Took, bare: Took, ready: Took) -> bool:
    """By the clock, or by the processor's time, which other work blurs less."""
    by_clock = ready.seconds - idle.seconds <= MOST * (bare.seconds - idle.seconds)
    return by_clock or ready.busy - idle.busy <= MOST * (bare.busy - idle.busy)


def tell(idle: Took, bare: Took, ready: Took) -> None:
    added = (ready.seconds - idle.seconds) / (bare.seconds - idle.seconds)
    times = f"{ready.seconds / bare.seconds:.2f} times FastAPI's, and it adds {added:.2f} times as much to idle Python"
    print(f"\nfrom the start of the monitor: idle Python {idle}, FastAPI's first answer {bare}, READY {ready}: {times}")


def booted_house(house: House) -> Took:
    """Until READY."""
    known = len(house.boots)
    house.start()
    house.stop()
    assert len(house.boots) == known + 1, "its time was not taken"
    return house.boots[-1]
