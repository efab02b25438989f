"""Tokens of OAuth that a service may take are taken out of its answers, also when they were replaced."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_common.net import parse_url
from agent_host.secrets import Secrets, SecretStore
from agent_host.services.catalog import OAuthCredential, Service
from agent_host.services.connection import ServiceConnector
from agent_host.services.credentials import Credentials
from agent_host.services.oauth import MOST_VALID, OAuthTokens
from agent_host.services.paths import PathGlobs
from agent_testing import ManualClock


@asynccontextmanager
async def token_server(lasts: int = 3600) -> AsyncGenerator[Service]:
    """A service whose tokens are `token-number-1`, `token-number-2`, and so on, each for so many seconds."""
    given = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal given
        await reader.readuntil(b"\r\n\r\n")
        given += 1
        body = json.dumps({"access_token": f"token-number-{given}", "expires_in": lasts}).encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = parse_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token")
    paths = PathGlobs.from_texts(["/**"])
    credential = OAuthCredential("main", url, "me", scope=None, in_body=False)
    try:
        yield Service("inner", url, credential, ("GET",), paths, None, None, None, private=True, timeout=60.0)
    finally:
        server.close()


@pytest.mark.parametrize("refusals", [1, 3 * MOST_VALID])
async def test_a_token_that_was_replaced_is_hidden_however_many_are_refused(tmp_path: Path, refusals: int) -> None:
    clock = ManualClock()
    store = SecretStore(tmp_path)
    store.set("main", "the-client-secret")
    credentials = Credentials(Secrets(store, {}, clock), OAuthTokens(ServiceConnector(), clock))

    async with token_server() as service:
        used: set[bytes] = set()
        for _ in range(refusals):
            used.add(((await credentials.apply(service)).header or (b"", b""))[1])
            credentials.refused(service)
        applied = await credentials.apply(service)
        assert len(used) == min(refusals, MOST_VALID)
        shown = b" ".join(used) + b" the-client-secret token-number-99"
        assert applied.hidden.redact(shown) == b"Bearer [redacted] " * len(used) + b"[redacted] token-number-99"
        clock.advance(3700)
        applied = await credentials.apply(service)
        assert len(applied.hidden.parts) == 2, "what has expired is no secret any more"


@pytest.mark.parametrize(("lasts", "second"), [(10**400, "token-number-1"), (-(10**400), "token-number-2")])
async def test_a_token_may_last_any_number_of_seconds(lasts: int, second: str) -> None:
    tokens = OAuthTokens(ServiceConnector(), ManualClock())
    async with token_server(lasts) as service:
        assert isinstance(service.credential, OAuthCredential)
        assert await tokens.get(service, service.credential, "s") == "token-number-1"
        assert await tokens.get(service, service.credential, "s") == second
