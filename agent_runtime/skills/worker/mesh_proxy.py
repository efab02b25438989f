"""`mesh_client` inside a worker: requests over the pipe, without a token, which the server answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from ...errors import MeshUnavailable
from ..workers.protocol import Message

if TYPE_CHECKING:
    from concurrent.futures import Future

    from openai import AsyncOpenAI, OpenAI


class Asking:
    """Requests to the server and the futures of their answers."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._ids = itertools.count(1)
        self._pending: dict[int, Future[Any]] = {}

    def ask(self, what: str, arguments: Mapping[str, Any]) -> Future[Any]:
        from concurrent.futures import Future  # a skill that asks nothing does not need it

        number, future = next(self._ids), Future[Any]()
        self._pending[number] = future
        self._send({"type": "ask", "id": number, "what": what, "arguments": dict(arguments)})
        return future

    def reply(self, message: Message) -> None:
        future = self._pending.pop(message["id"], None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if "error" in message:
            future.set_exception(MeshUnavailable(message["error"]))
        else:
            future.set_result(message["value"])


class AsyncMesh:
    """For async skills. What the host does not offer raises MeshUnavailable."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """A chat completion, as the model proxy answers it."""
        return await self._ask("chat", {"messages": messages, **options})

    async def embed(self, texts: Sequence[str], **options: Any) -> list[list[float]]:
        """One vector per text."""
        return await self._ask("embed", {"texts": texts, **options})

    async def search(self, query: str, **options: Any) -> list[dict[str, str]]:
        """Pages of the web, best first: `title`, `url`, `snippet`. As web_search of the agent that calls the skill."""
        return await self._ask("search", {"query": query, **options})

    def openai(self) -> AsyncOpenAI:
        """A client of the package `openai` whose requests the mesh answers."""
        from .openai_client import open_async

        return open_async(self._asking.ask)

    async def _ask(self, what: str, arguments: Mapping[str, Any]) -> Any:
        import asyncio

        return await asyncio.wrap_future(self._asking.ask(what, arguments))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def missing(*_: Any, **__: Any) -> NoReturn:
            raise _not_offered(name)

        return _unless_private(name, missing)


class BlockingMesh:
    """For plain functions: the same calls, which return when the answer is there."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """A chat completion, as the model proxy answers it."""
        return self._asking.ask("chat", {"messages": messages, **options}).result()

    def embed(self, texts: Sequence[str], **options: Any) -> list[list[float]]:
        """One vector per text."""
        return self._asking.ask("embed", {"texts": texts, **options}).result()

    def search(self, query: str, **options: Any) -> list[dict[str, str]]:
        """Pages of the web, best first: `title`, `url`, `snippet`. As web_search of the agent that calls the skill."""
        return self._asking.ask("search", {"query": query, **options}).result()

    def openai(self) -> OpenAI:
        """A client of the package `openai` whose requests the mesh answers."""
        from .openai_client import open_blocking

        return open_blocking(self._asking.ask)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def missing(*_: Any, **__: Any) -> NoReturn:
            raise _not_offered(name)

        return _unless_private(name, missing)


def _not_offered(name: str) -> MeshUnavailable:
    return MeshUnavailable(f"this host does not offer {name}; there are: chat, embed, openai, search")


def _unless_private(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    return function
