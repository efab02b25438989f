"""A guest under the smallest memory limit that it is promised to survive, and a caller that watches it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from agent_testing import ScriptedProvider
from tests.e2e.live import SERVE, TOKEN, Runtime
from tests.memory_limit import GUEST_MIB, limited, peak_mib
from tests.pulse import Pulse


class SmallGuest(Runtime):
    """A runtime with 512 MiB of memory."""

    def __init__(self, provider: ScriptedProvider, data_dir: Path, **settings: object) -> None:
        super().__init__(provider, data_dir, **settings)
        self.command = limited(SERVE, GUEST_MIB)

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
