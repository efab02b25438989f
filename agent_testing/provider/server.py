"""The provider inside a running event loop: routes, the record of requests, and the control routes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError

from agent_common.protocol import ModelCard

from .connection import ProviderConnection
from .embeddings import embeddings
from .record import Recorded
from .replies import raw_reply, wire_reply
from .script import Script
from .sse_stream import chat_answer, failure_reply
from .steps import Raw
from .wire import WireReply, json_reply

COMPLETIONS = "/v1/chat/completions"
MOST_RECORDED = 10_000  # requests, so that a benchmark does not fill the memory
Given = tuple[Recorded, Sequence[dict[str, Any]]]
"""A request, and the answer to it in the shape in which it is to come back: messages or items."""


class ProviderServer:
    """An OpenAI-compatible endpoint on a loopback port. All but `start` and `stop` may be called from any thread.

    A double of another API overrides `completions_path`, `serve` and `refuse`.
    """

    completions_path = COMPLETIONS
    """Path of the requests that `wait_for` counts."""

    def __init__(self, script: Script, models: Iterable[ModelCard | str] | Raw = ("default",)) -> None:
        """`models`: what `/v1/models` lists, or the response that it gives."""
        self.script = script
        self.connections: set[ProviderConnection] = set()
        self.models: list[ModelCard] | Raw = models if isinstance(models, Raw) else _cards(models)
        self.refusals: list[str] = []
        """The words of all refusals so far."""
        self.answers: deque[Given] = deque(maxlen=MOST_RECORDED)
        """What a double that wants its answers back has given so far."""
        self._recorded: deque[Recorded] = deque(maxlen=MOST_RECORDED)
        self._arrival = threading.Condition()
        self._completions = 0
        self._replies_sent = 0
        self._seconds = 0.0

    async def start(self, port: int = 0) -> str:
        """Open the port (0: any free one) and return the base URL, `/v1` included."""
        self._loop = asyncio.get_running_loop()
        self.released = asyncio.Event()
        self._server = await self._loop.create_server(lambda: ProviderConnection(self), "127.0.0.1", port)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def stop(self) -> None:
        """Close the port and every connection."""
        self._server.close()
        players = [player for connection in list(self.connections) if (player := connection.abort())]
        await asyncio.gather(*players, return_exceptions=True)
        await self._server.wait_closed()

    # the record

    @property
    def requests(self) -> list[Recorded]:
        """The requests, oldest first; at most the latest MOST_RECORDED."""
        with self._arrival:
            return list(self._recorded)

    def clear(self) -> None:
        """Forget the requests, the refusals and the answers."""
        with self._arrival:
            self._recorded.clear()
            self.refusals.clear()
            self.answers.clear()
            self._completions = self._replies_sent = 0
            self._seconds = 0.0

    def wait_for(self, count: int, timeout: float) -> list[Recorded]:
        """Block until there were `count` requests for chat completions, and return them. Raises TimeoutError."""
        with self._arrival:
            if not self._arrival.wait_for(lambda: self._completions >= count, timeout):
                raise TimeoutError(f"{self._completions} of {count} chat completions came within {timeout} s")
            return [request for request in self._recorded if request.path == self.completions_path]

    def stats(self) -> dict[str, float]:
        """Return the number of answered requests, and the sum of the seconds that they took, pauses included."""
        return {"requests": self._replies_sent, "seconds": self._seconds}

    def release(self) -> None:
        """Let every reply that hangs now continue."""
        self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        self.released.set()
        self.released = asyncio.Event()

    def respond(self, request: Recorded) -> WireReply:
        try:
            if request.path.startswith("/_"):
                return [self._control(request)]
            with self._arrival:
                self._recorded.append(request)
                self._completions += request.path == self.completions_path
                self._arrival.notify_all()
            return self.serve(request)
        except (ValueError, ValidationError) as error:
            self.refusals.append(str(error))
            return self.refuse(error)

    def reply_sent(self, request: Recorded) -> None:
        if not request.path.startswith("/_"):
            self._replies_sent += 1
            self._seconds += time.monotonic() - request.received_at

    def refuse(self, error: ValueError) -> WireReply:
        """Return the reply to a request that `serve` has refused."""
        return [_error(400, str(error))]

    def serve(self, request: Recorded) -> WireReply:
        """Return the reply to a request. Raises ValueError if it is wrong."""
        match request.method, request.path.partition("?")[0]:
            case "POST", "/v1/chat/completions":
                return wire_reply(self.script.next(request), lambda say: chat_answer(say, request), failure_reply)
            case "POST", "/v1/embeddings":
                return [json_reply(200, embeddings(request.fields))]
            case "GET", "/v1/models":
                return _list_of(self.models)
            case method, path:
                return [_error(404, f"no route {method} {path}")]

    def _control(self, request: Recorded) -> bytes:
        match request.method, request.path:
            case "POST", "/_script":
                self.script.load(request.json)
                return json_reply(200, {"left": self.script.remaining})
            case "GET", "/_requests":
                return json_reply(200, [recorded.describe() for recorded in self.requests])
            case "DELETE", "/_requests":
                self.clear()
                return json_reply(200, {})
            case "POST", "/_release":
                self._release()
                return json_reply(200, {})
            case "GET", "/_stats":
                return json_reply(200, self.stats())
            case method, path:
                return _error(404, f"no route {method} {path}")


def _cards(models: Iterable[ModelCard | str]) -> list[ModelCard]:
    return [ModelCard(id=model) if isinstance(model, str) else model for model in models]


def _list_of(models: list[ModelCard] | Raw) -> WireReply:
    if isinstance(models, Raw):
        return raw_reply(models)
    cards = [{"object": "model", **card.model_dump(exclude_none=True)} for card in models]
    return [json_reply(200, {"object": "list", "data": cards})]


def _error(status: int, message: str) -> bytes:
    return json_reply(status, {"error": {"message": message, "type": "invalid_request_error", "code": None}})
