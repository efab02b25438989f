"""Any endpoint that speaks OpenAI's HTTP: the real thing, a gateway, a server on the next machine."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

import certifi
import httpx2

from ...errors import ProviderFailed
from ..catalog.catalog import ProviderSpec
from .base import ProviderAnswer, ProviderCall

_PATHS = {"chat": "/chat/completions", "embeddings": "/embeddings"}


class OpenAICompatible:
    """One endpoint behind one pool of connections, opened with the first call.

    The way there may lead through the proxies that the environment names. `inside` is for a server in this very
    process: no proxy, and a new connection for each call.
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
                self._check_key(response.status_code)
                yield ProviderAnswer(response.status_code, response.headers, response.aiter_raw())
        except httpx2.TimeoutException as error:
            raise ProviderFailed(f"{self._name} was silent for too long", code="provider_timeout") from error
        except httpx2.TransportError as error:
            code = "provider_dropped" if reached else "provider_unreachable"
            what = "broke off its answer" if reached else "cannot be reached"
            # Our own request was at fault: such an error may quote it, the key included.
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
        """Made by hand: the client's way from defaults to a request costs a third of a small call."""
        # Only these headers go upstream: what else the agent sent, its own bearer first of all, stays here.
        # Events must come through unpacked, or usage could not be found in them.
        headers = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "agent-host"}
        if self._spec.api_key:
            headers["authorization"] = f"Bearer {self._spec.api_key}"
        if call.idempotency_key:
            headers["idempotency-key"] = call.idempotency_key
        url = self._urls[call.operation]
        return httpx2.Request("POST", url, headers=headers, content=call.content, extensions={"timeout": self._timeout})

    def _check_key(self, status: int) -> None:
        # Not passed on as it came: to the agent a 401 means that its own token is wrong.
        if status in (401, 403):
            refused = "refused the host's key" if self._spec.api_key else "wants a key, and the host has none"
            mend = f"the operator must set {self._spec.set_by} to one that it takes"
            raise ProviderFailed(f"{self._name} {refused} (HTTP {status}); {mend}", code="provider_auth")


def _trusted_authorities() -> ssl.SSLContext | bool:
    """Those that the environment names, else the public ones. The client changes the context that it gets."""
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    return True if named else ssl.create_default_context(cafile=certifi.where())
