"""A client's line to the server: it says the same thing again until somebody answers."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx

from .ledger import Ledger
from .lives import PATIENCE, TOKEN, Lives

BUSY = (429, 503)
"""Answers that mean: not now."""


class Line:
    """Requests that survive the death of the server. Not shared between threads."""

    def __init__(self, lives: Lives, ledger: Ledger) -> None:
        self._lives, self._ledger = lives, ledger

    def __enter__(self) -> Self:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self._http = httpx.Client(base_url=self._lives.url, headers=headers, timeout=PATIENCE, trust_env=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.close()

    def ask(self, method: str, path: str, body: Any = None, **params: Any) -> httpx.Response:
        """The first answer that is one. The same request is repeated while nobody answers, or has no room for it."""
        deadline = time.monotonic() + 2 * PATIENCE
        while True:
            life = self._lives.number
            try:
                reply = self._http.request(method, path, json=body, params=params)
            except httpx.TransportError as error:
                self._unanswered(f"{method} {path}", life, error, deadline)
                continue
            self._ledger.calls += 1
            if reply.status_code not in BUSY:
                return reply
            self.later()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{method} {path} was never taken: {reply.text}")

    @contextmanager
    def stream(self, method: str, path: str, body: Any = None) -> Generator[httpx.Response]:
        with self._http.stream(method, path, json=body) as response:
            self._ledger.calls += 1
            yield response

    def later(self) -> None:
        """A moment's patience with a server that has no room."""
        time.sleep(0.05)

    def broken(self, what: str, life: int, error: httpx.TransportError) -> None:
        """A stream broke off: fine when the server died, a fault when it goes on."""
        self._unanswered(what, life, error, time.monotonic() + PATIENCE)

    def _unanswered(self, what: str, life: int, error: httpx.TransportError, deadline: float) -> None:
        if isinstance(error, httpx.TimeoutException) and life == self._lives.number and self._lives.alive:
            self._ledger.fault(f"{what} got no answer within {PATIENCE} s from life {life}")
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} was never answered") from error
        self._ledger.repeated += 1
        self._lives.next(life, 0.02)
