"""A provider in a thread with an event loop of its own, so that it serves blocking and async tests alike."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

import uvloop

from .record import Recorded
from .server import Given, ProviderServer

_START_SECONDS = 10.0
_STOP_SECONDS = 10.0


class ProviderThread:
    """A context manager that serves while it is entered."""

    def __init__(self, server: ProviderServer, port: int = 0) -> None:
        self.script = server.script
        self._server = server
        self._port = port
        self._url: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._url.result(_START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} did not stop within {_STOP_SECONDS} s")

    @property
    def url(self) -> str:
        """The base URL, `http://127.0.0.1:PORT/v1`."""
        return self._url.result(0)

    @property
    def requests(self) -> list[Recorded]:
        """All requests so far, oldest first; at most the latest ten thousand."""
        return self._server.requests

    @property
    def completions(self) -> list[Recorded]:
        """The requests for an answer of the model among them."""
        return [request for request in self.requests if request.path == self._server.completions_path]

    @property
    def refusals(self) -> Sequence[str]:
        """The words of all refusals so far."""
        return tuple(self._server.refusals)

    @property
    def answers(self) -> Sequence[Given]:
        """What it has given so far, where it wants its answers back: each request, and the messages or items of the
        answer as they are to come back."""
        return tuple(self._server.answers)

    def wait_for(self, count: int, timeout: float = 60.0) -> list[Recorded]:
        """Block until there were `count` requests for an answer of the model, and return them. Raises TimeoutError."""
        return self._server.wait_for(count, timeout)

    def release(self) -> None:
        """Let every reply that hangs now continue."""
        self._server.release()

    def clear(self) -> None:
        """Forget the requests, the refusals and the answers so far."""
        self._server.clear()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._url.done():
                raise
            self._url.set_exception(error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._url.set_result(await self._server.start(self._port))
        await self._stopping.wait()
        await self._server.stop()
