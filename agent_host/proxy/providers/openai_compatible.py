"""Providers that speak OpenAI's HTTP API: OpenAI itself, a gateway, or a local server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

import httpx2

from agent_common.completions import decompress

from ..catalog.catalog import ProviderSpec
from .base import ProviderAnswer, ProviderCall
from .http import key_refused, open_client, refuses_key, transport_failed

_MOST_OF_A_REFUSAL = 64 * 1024
_PATHS = {"chat": "/chat/completions", "embeddings": "/embeddings"}


class OpenAICompatible:
    """One endpoint, with a connection pool that is opened by the first call.

    Proxies that the environment names are used. `in_process` is for a server in this process: it uses no proxy, and a
    new connection for each call.
    """

    def __init__(
        self, spec: ProviderSpec, connect_timeout: float, idle_timeout: float, *, in_process: bool = False
    ) -> None:
        self._spec = spec
        self._in_process = in_process
        self._urls = {operation: httpx2.URL(spec.base_url + path) for operation, path in _PATHS.items()}
        self._timeout = httpx2.Timeout(idle_timeout, connect=connect_timeout, pool=None).as_dict()
        self._open_client: httpx2.AsyncClient | None = None

    @asynccontextmanager
    async def call(self, call: ProviderCall) -> AsyncGenerator[ProviderAnswer]:
        reached = False
        try:
            async with aclosing(await self._client.send(self._request(call), stream=True)) as response:
                reached = True
                body = response.aiter_raw()
                if response.status_code in (400, 401, 403):
                    body = await self._check_key(response.status_code, response.headers, body)
                yield ProviderAnswer(response.status_code, response.headers, body, self._spec.api_key)
        except httpx2.TransportError as error:
            raise transport_failed(self._spec, error, reached=reached) from error

    async def close(self) -> None:
        if self._open_client is not None:
            await self._open_client.aclose()

    @property
    def _client(self) -> httpx2.AsyncClient:
        if self._open_client is None:
            self._open_client = open_client(in_process=self._in_process)
        return self._open_client

    def _request(self, call: ProviderCall) -> httpx2.Request:
        """Build the request directly: the client's own method takes a third of the time of a small call."""
        # Only these headers are sent upstream, and none of the agent's, such as its bearer token.
        # The answer must not be compressed, or usage could not be found in its events.
        headers = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "agent-host"}
        if self._spec.api_key:
            headers["authorization"] = f"Bearer {self._spec.api_key}"
        if call.idempotency_key:
            headers["idempotency-key"] = call.idempotency_key
        url = self._urls[call.operation]
        return httpx2.Request("POST", url, headers=headers, content=call.content, extensions={"timeout": self._timeout})

    async def _check_key(
        self, status: int, headers: Mapping[str, str], body: AsyncIterator[bytes]
    ) -> AsyncIterator[bytes]:
        """Raise ProviderFailed if the key was refused. A refusal for another reason is returned to be passed on."""
        content = bytearray()
        async for data in body:
            content += data
            if len(content) > _MOST_OF_A_REFUSAL:
                break
        plain = decompress(bytes(content), headers.get("content-encoding", ""), _MOST_OF_A_REFUSAL)
        if refuses_key(status, headers, plain):
            raise key_refused(self._spec, status, plain)
        return _joined(bytes(content), body)


async def _joined(begun: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield begun
    async for data in rest:
        yield data
