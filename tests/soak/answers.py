"""What the server's answers say: names, ends, and the text of a stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from agent_common.protocol import chunks as c
from tests.e2e.live import Stream, text_of, types

TERMINAL = ("complete", "failed", "cancelled", "timeout")


def chat_names(answer: dict[str, Any]) -> dict[str, Any]:
    return {"session_id": answer["session_id"], "message_id": answer["message_id"]}


def chat_end(answer: dict[str, Any]) -> dict[str, Any]:
    """What never changes about the end of a chat turn."""
    return {"response": answer["response"], "finish_reason": answer["finish_reason"]}


def task_end(record: dict[str, Any]) -> dict[str, Any]:
    """What never changes about the end of a task."""
    return {name: record[name] for name in ("status", "error_code", "limit", "result", "session_id")}


class Reader:
    """Reads a stream to its end, critically."""

    def __init__(self, response: httpx.Response, heard: Callable[[c.AnyChunk], None] = lambda _: None) -> None:
        self._stream, self._heard = Stream(response), heard

    def rest(self) -> str:
        """All text of the stream. A turn that was cancelled in the queue has nothing but an end."""
        while (chunk := self._stream.next()) is not None:
            self._heard(chunk)
        told = [chunk for chunk in self._stream.read if not (isinstance(chunk, c.DataChunk) and chunk.transient)]
        if not (self._stream.done and types(told) == ["abort"]):
            self._stream.rest()
        return text_of(told)
