"""A guest whose memory is looked at, and a caller that watches it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

import httpx

from tests.e2e.live import TOKEN, Runtime
from tests.memory_limit import peak_mib
from tests.pulse import Pulse


class SmallGuest(Runtime):
    """A runtime that a test measures. Its limit of memory is that of every runtime of this folder."""

    @property
    def peak_mib(self) -> int:
        return peak_mib(self.process.pid)

    @contextmanager
    def watched(self, longest_ms: float) -> Generator[None]:
        """Assert that no answer to `/status` takes longer while the block runs."""
        pulse = Pulse(self.url, TOKEN)
        with pulse:
            yield
        assert max(pulse.milliseconds, default=0) < longest_ms, sorted(pulse.milliseconds)[-5:]

    def post_raw(self, path: str, body: bytes, **headers: str) -> tuple[httpx.Response, float]:
        """Post bytes as JSON. Return the answer and the seconds that it took."""
        began = time.monotonic()
        sent = {"Content-Type": "application/json", **headers}
        reply = self.http.post(path, content=body, headers=sent, timeout=60)
        return reply, time.monotonic() - began
