"""The scripted provider for tests: a context manager with a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

import uvloop

from agent_common.protocol import ModelCard

from .record import Recorded
from .script import Reply, Script
from .server import COMPLETIONS, ProviderServer
from .steps import Raw, Step

_START_SECONDS = 10.0
_STOP_SECONDS = 10.0


class ScriptedProvider:
    """An OpenAI-compatible endpoint that answers by a script.

        with ScriptedProvider([Call("read", {"path": "a.txt"}), Say("It says hello.")]) as provider:
            client = AsyncOpenAI(base_url=provider.url, api_key="none")

    `steps` and `otherwise` are those of `Script`; `models` are what `/v1/models` lists, or the
    response that it gives; `port` 0 is any free one.
    """

    def __init__(
        self,
        steps: Iterable[Step] | Reply | None = None,
        *,
        otherwise: Step | Reply | None = None,
        models: Iterable[ModelCard | str] | Raw = ("default",),
        port: int = 0,
    ) -> None:
        self.script = Script(steps, otherwise)
        self._server = ProviderServer(self.script, models)
        self._port = port
        self._url: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name="scripted-provider", daemon=True)

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
            raise TimeoutError(f"the scripted provider did not stop within {_STOP_SECONDS} s")

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
        """The chat completion requests among them."""
        return [request for request in self.requests if request.path == COMPLETIONS]

    def wait_for(self, count: int, timeout: float = 10.0) -> list[Recorded]:
        """Block until there were `count` requests for chat completions, and return them. Raises TimeoutError."""
        return self._server.wait_for(count, timeout)

    def release(self) -> None:
        """Let every reply that hangs now continue."""
        self._server.release()

    def clear(self) -> None:
        """Forget the requests so far."""
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
