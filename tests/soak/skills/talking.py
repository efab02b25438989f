"""Somebody who talks to a live server."""

from __future__ import annotations

import itertools
from types import TracebackType
from typing import Any, Self

import httpx

from ..lives import TOKEN

LONGEST = 300.0
"""Seconds for a turn with many calls."""
_numbers = itertools.count(1)


class Talking:
    """Turns and the card of a server, over one connection."""

    def __init__(self, url: str) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=LONGEST, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._http.close()

    def turn(self, message: str) -> list[dict[str, Any]]:
        """A turn in a session of its own; the outputs of its tools. Raises RuntimeError when it fails."""
        body = {"message": message, "session_id": f"talk-{next(_numbers)}", "wait": 600}
        reply = self._http.post("/chat", json=body)
        if reply.status_code != 200:
            raise RuntimeError(f"{message} was answered {reply.status_code}: {reply.text[:1000]}")
        return reply.json()["tool_outputs"]

    def card(self) -> dict[str, Any]:
        return self._http.get("/capabilities").raise_for_status().json()
