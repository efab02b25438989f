"""`mesh_client.openai()`: clients of the package `openai` whose requests pass the worker's pipe, without a token."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import httpx2

from ...errors import MeshUnavailable

if TYPE_CHECKING:
    from concurrent.futures import Future

    from openai import AsyncOpenAI, OpenAI

    Ask = Callable[[str, Mapping[str, Any]], Future[Any]]

BASE_URL = "http://mesh/v1"
"""Stands for the mesh, whose address a worker does not know and could not reach."""
_KEY = "none"


def open_async(ask: Ask) -> AsyncOpenAI:
    """Return a client for async skills."""
    from openai import AsyncOpenAI  # takes half a second; few skills need it

    http = httpx2.AsyncClient(transport=_AsyncPipe(ask), trust_env=False)
    return AsyncOpenAI(base_url=BASE_URL, api_key=_KEY, max_retries=0, http_client=http)


def open_blocking(ask: Ask) -> OpenAI:
    """Return a client for plain functions."""
    from openai import OpenAI

    http = httpx2.Client(transport=_Pipe(ask), trust_env=False)
    return OpenAI(base_url=BASE_URL, api_key=_KEY, max_retries=0, http_client=http)


class _AsyncPipe(httpx2.AsyncBaseTransport):
    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        arguments = _arguments(request, await request.aread())
        try:
            return _response(await asyncio.wrap_future(self._ask("openai", arguments)))
        except MeshUnavailable as error:
            return _unavailable(error)


class _Pipe(httpx2.BaseTransport):
    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        arguments = _arguments(request, request.read())
        try:
            return _response(self._ask("openai", arguments).result())
        except MeshUnavailable as error:
            return _unavailable(error)


def _arguments(request: httpx2.Request, body: bytes) -> dict[str, Any]:
    path = request.url.path.removeprefix("/v1/")
    return {"path": path, "body": json.loads(body) if body else None}  # noqa: TID251  in the plugin's own worker


def _response(answer: dict[str, Any]) -> httpx2.Response:
    return httpx2.Response(answer["status"], json=answer["body"])


def _unavailable(error: MeshUnavailable) -> httpx2.Response:
    """Return the failure as an answer, so that the package raises its own error with these words."""
    body = {"error": {"message": error.message, "type": "api_error", "param": None, "code": "mesh_unavailable"}}
    return httpx2.Response(503, json=body)
