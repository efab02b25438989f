"""`mesh_client` inside a worker: requests over the pipe, without a token, which the server answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NoReturn

from ...errors import MeshRefused, MeshUnavailable
from ..workers.protocol import Message

if TYPE_CHECKING:
    from concurrent.futures import Future

    from openai import AsyncOpenAI, OpenAI


Vectors = list[list[float]]
Pages = list[dict[str, str]]
METHODS = ("artifact", "chat", "embed", "get", "list", "openai", "publish", "put", "search", "service")


class Asking:
    """Requests to the server and the futures of their answers."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._ids = itertools.count(1)
        self._pending: dict[int, Future[Any]] = {}

    def ask(self, what: str, arguments: Mapping[str, Any]) -> Future[Any]:
        from concurrent.futures import Future  # a skill that asks nothing does not need it

        number = next(self._ids)
        future = Future[Any]()
        self._pending[number] = future
        self._send({"type": "ask", "id": number, "what": what, "arguments": dict(arguments)})
        return future

    def reply(self, message: Message) -> None:
        future = self._pending.pop(message["id"], None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if "refused" in message:
            future.set_exception(MeshRefused(message["error"], kind=message["refused"]))
        elif "error" in message:
            future.set_exception(MeshUnavailable(message["error"]))
        else:
            future.set_result(message["value"])


class AsyncMesh:
    """For async skills. What the host does not offer, and a host that does not answer, raise MeshUnavailable; what it
    or a rule of the agent refuses raises MeshRefused."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """A chat completion, as the model proxy answers it."""
        return await self._ask("chat", {"messages": messages, **options})

    async def embed(self, texts: Sequence[str], **options: Any) -> Vectors:
        """One vector per text."""
        return await self._ask("embed", {"texts": texts, **options})

    async def search(self, query: str, **options: Any) -> Pages:
        """Pages of the web, best first: `title`, `url`, `snippet`. As web_search of the agent that calls the skill."""
        return await self._ask("search", {"query": query, **options})

    async def get(self, key: str) -> dict[str, Any]:
        """The entry of the team's blackboard: `value`, `version` and more. As read_blackboard."""
        return await self._ask("get", {"key": key})

    async def put(
        self,
        key: str,
        value: Any,
        *,
        ttl: float | None = None,
        if_version: int | None = None,
        if_absent: bool | None = None,
    ) -> dict[str, Any]:
        """Write an entry. `written` says whether the condition held. As write_blackboard."""
        given = _given(ttl=ttl, if_version=if_version, if_absent=if_absent)
        return await self._ask("put", {"key": key, "value": value, **given})

    async def list(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """`entries`, and `next` to pass as `after`. As list_blackboard."""
        return await self._ask("list", {"prefix": prefix, **_given(after=after, limit=limit)})

    async def publish(self, topic: str, data: Any, *, id: str | None = None) -> dict[str, Any]:
        """Publish a message, once by an `id` of your own: `id`, `seq`, `known`. As publish_event."""
        return await self._ask("publish", {"topic": topic, "data": data, **_given(id=id)})

    async def artifact(
        self,
        name: str,
        path: str | PathLike[str],
        *,
        version: int | None = None,
        save: bool = False,
        media_type: str | None = None,
        if_version: int | None = None,
        if_absent: bool | None = None,
    ) -> dict[str, Any]:
        """Get an artifact of the team into a file of the workspace, or with `save` make an artifact of the file. As
        get_artifact and save_artifact."""
        given = _given(version=version, media_type=media_type, if_version=if_version, if_absent=if_absent)
        return await self._ask("artifact", {"name": name, "path": fspath(path), "save": save, **given})

    async def service(
        self,
        service: str,
        path: str,
        *,
        method: str = "GET",
        json: Any = None,
        text: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Call a web service of the host, which adds the credential: `status`, `content_type`, `json` or `text`. As
        call_service."""
        given = _given(json=json, text=text, headers=headers)
        return await self._ask("service", {"service": service, "path": path, "method": method, **given})

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

    def embed(self, texts: Sequence[str], **options: Any) -> Vectors:
        """One vector per text."""
        return self._asking.ask("embed", {"texts": texts, **options}).result()

    def search(self, query: str, **options: Any) -> Pages:
        """Pages of the web, best first: `title`, `url`, `snippet`. As web_search of the agent that calls the skill."""
        return self._asking.ask("search", {"query": query, **options}).result()

    def get(self, key: str) -> dict[str, Any]:
        """The entry of the team's blackboard: `value`, `version` and more. As read_blackboard."""
        return self._asking.ask("get", {"key": key}).result()

    def put(
        self,
        key: str,
        value: Any,
        *,
        ttl: float | None = None,
        if_version: int | None = None,
        if_absent: bool | None = None,
    ) -> dict[str, Any]:
        """Write an entry. `written` says whether the condition held. As write_blackboard."""
        given = _given(ttl=ttl, if_version=if_version, if_absent=if_absent)
        return self._asking.ask("put", {"key": key, "value": value, **given}).result()

    def list(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> dict[str, Any]:
        """`entries`, and `next` to pass as `after`. As list_blackboard."""
        return self._asking.ask("list", {"prefix": prefix, **_given(after=after, limit=limit)}).result()

    def publish(self, topic: str, data: Any, *, id: str | None = None) -> dict[str, Any]:
        """Publish a message, once by an `id` of your own: `id`, `seq`, `known`. As publish_event."""
        return self._asking.ask("publish", {"topic": topic, "data": data, **_given(id=id)}).result()

    def artifact(
        self,
        name: str,
        path: str | PathLike[str],
        *,
        version: int | None = None,
        save: bool = False,
        media_type: str | None = None,
        if_version: int | None = None,
        if_absent: bool | None = None,
    ) -> dict[str, Any]:
        """Get an artifact of the team into a file of the workspace, or with `save` make an artifact of the file. As
        get_artifact and save_artifact."""
        given = _given(version=version, media_type=media_type, if_version=if_version, if_absent=if_absent)
        return self._asking.ask("artifact", {"name": name, "path": fspath(path), "save": save, **given}).result()

    def service(
        self,
        service: str,
        path: str,
        *,
        method: str = "GET",
        json: Any = None,
        text: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Call a web service of the host, which adds the credential: `status`, `content_type`, `json` or `text`. As
        call_service."""
        given = _given(json=json, text=text, headers=headers)
        return self._asking.ask("service", {"service": service, "path": path, "method": method, **given}).result()

    def openai(self) -> OpenAI:
        """A client of the package `openai` whose requests the mesh answers."""
        from .openai_client import open_blocking

        return open_blocking(self._asking.ask)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def missing(*_: Any, **__: Any) -> NoReturn:
            raise _not_offered(name)

        return _unless_private(name, missing)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _not_offered(name: str) -> MeshUnavailable:
    return MeshUnavailable(f"mesh_client has no {name}; it has: {', '.join(METHODS)}")


def _unless_private(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if name.startswith("_"):
        raise AttributeError(name)
    return function
