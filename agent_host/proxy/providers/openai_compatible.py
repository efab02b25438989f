"""Providers that speak OpenAI's HTTP API: OpenAI itself, a gateway, or a local server."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

import certifi
import httpx2

from agent_common.completions import from_response

from ...errors import ProviderFailed
from ..catalog.catalog import ProviderSpec
from .base import ProviderAnswer, ProviderCall
from .wire import body_parts

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
                if response.status_code in (401, 403):
                    body = await self._check_key(response.status_code, response.headers, body)
                yield ProviderAnswer(response.status_code, response.headers, body)
        except httpx2.TimeoutException as error:
            raise ProviderFailed(f"{self._name} was silent for too long", code="provider_timeout") from error
        except httpx2.TransportError as error:
            code = "provider_dropped" if reached else "provider_unreachable"
            what = "broke off its answer" if reached else "cannot be reached"
            # An error about our own request may quote it with the key, so its text is not passed on.
            why = "" if isinstance(error, httpx2.LocalProtocolError) else str(error)
            text = f"{self._name} {what}: {why or type(error).__name__} ({self._spec.shown_url})"
            raise ProviderFailed(text, code=code) from error

    async def close(self) -> None:
        if self._open_client is not None:
            await self._open_client.aclose()

    @property
    def _name(self) -> str:
        return f"the provider {self._spec.name!r}"

    @property
    def _client(self) -> httpx2.AsyncClient:
        if self._open_client is None:
            kept = 0 if self._in_process else 64
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=kept, keepalive_expiry=30)
            self._open_client = httpx2.AsyncClient(
                limits=limits, verify=_trusted_authorities(), trust_env=not self._in_process
            )
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
        # A 401 is not passed on, because to the agent it would mean that its own token is wrong.
        content = bytearray()
        async for data in body:
            content += data
            if len(content) > _MOST_OF_A_REFUSAL:
                break
        if status == 401 or from_response(status, headers, bytes(content)).code == "model_auth":
            refused = "refused the host's key" if self._spec.api_key else "requires a key, and the host has none"
            remedy = f"the operator must set {self._spec.set_by} to a valid key"
            raise ProviderFailed(f"{self._name} {refused} (HTTP {status}); {remedy}", code="provider_auth")
        return body_parts([bytes(content)])


def _trusted_authorities() -> ssl.SSLContext | bool:
    """Those that the environment names, else the public ones. The client changes the context that it gets."""
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    return True if named else ssl.create_default_context(cafile=certifi.where())
