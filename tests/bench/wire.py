"""Calls as of a model by the pool of the hot path: over a unix socket, and over TCP. Run as a program it answers."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn

from agent_common.net import HttpPool, Tcp, Unix, http_url, listen_at
from agent_testing import LiveProcess

from .load import Samples
from .targets import Live

CALLS, SLICE = 1000, 50
ASKED, PIECES = b"x" * 1024, [b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'] * 4


async def calling(_live: Live, _provider: str, calls: int = CALLS) -> Samples:
    """Microseconds per call, one after the other over one connection; fifty by one way, then fifty by the other."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "s"
        with LiveProcess([sys.executable, "-m", "tests.bench.wire", str(path)]) as process:
            url = process.wait_for_output(r"^http://\S+$")[0]
            unix, tcp = (
                HttpPool(one, {}, read_timeout=10) for one in (f"http+unix://{quote(str(path), safe='')}", url)
            )
            samples: Samples = {"unix": [], "tcp": [], "ratio": []}
            for number in range(calls // SLICE + 1):
                taken = [await _slice(pool) for pool in (unix, tcp)]
                if number:  # the first one connects
                    for name, figure in zip(samples, (*taken, taken[0] / taken[1]), strict=True):
                        samples[name].append(figure)
            for pool in (unix, tcp):
                await pool.close()
    return samples


async def _slice(pool: HttpPool) -> float:
    began = time.perf_counter()
    for _ in range(SLICE):
        async with pool.request("POST", "/", ASKED) as reply:
            assert len(await reply.body()) == sum(map(len, PIECES))
    return (time.perf_counter() - began) / SLICE * 1e6


async def _answer(_scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for piece in PIECES:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _serve(path: str) -> None:
    with listen_at(Unix(path)) as unix, listen_at(Tcp("127.0.0.1", 0)) as tcp:
        print(http_url(tcp.endpoint), flush=True)
        config = uvicorn.Config(_answer, loop="uvloop", http="httptools", ws="none", lifespan="off", log_config=None)
        uvicorn.Server(config).run(sockets=[unix.sock, tcp.sock])


if __name__ == "__main__":
    _serve(sys.argv[1])
