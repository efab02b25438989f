"""A client of the streams that go on where they were."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from .live import PATIENCE


class Watcher:
    """Reads a stream of events in a thread: what has come, and the last id."""

    def __init__(self, client: httpx.Client, path: str, last: str | None = None, **params: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.last, self.ended = last, False
        self._news = threading.Condition()
        self._ready = threading.Event()
        self._stop = False
        self._client, self._path, self._params = client, path, params
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop = True

    def take(self, count: int) -> list[dict[str, Any]]:
        """All events, once there are so many."""
        with self._news:
            assert self._news.wait_for(lambda: len(self.events) >= count, PATIENCE), self.events
            return list(self.events)

    def _run(self) -> None:
        headers = {"accept": "text/event-stream"} | ({"last-event-id": self.last} if self.last is not None else {})
        try:
            with self._client.stream("GET", self._path, params=self._params, headers=headers) as reply:
                assert reply.status_code == 200, reply.read()
                for line in reply.iter_lines():
                    if self._stop:
                        return
                    self._read(line)
        except httpx.HTTPError:
            pass
        finally:
            self.ended = True
            self._ready.set()

    def _read(self, line: str) -> None:
        if line.startswith("id: "):
            self.last = line[4:]
        elif line.startswith("data: "):
            with self._news:
                self.events.append(json.loads(line[6:]))
                self._news.notify_all()
        elif not line:
            self._ready.set()


def eventually(call: Callable[[], bool]) -> None:
    """Wait until it is so."""
    deadline = time.monotonic() + PATIENCE
    while not call():
        assert time.monotonic() < deadline, "it has not come"
        time.sleep(0.01)
