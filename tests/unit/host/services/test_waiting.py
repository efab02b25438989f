"""A secret that does not come holds up all who wait for it once, and not each of them in turn."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

from agent_common.clock import SystemClock
from agent_common.net import parse_url
from agent_host.errors import RequestError
from agent_host.secrets import CommandSource, Secrets, SecretStore
from agent_host.services.catalog import OAuthCredential, Service
from agent_host.services.connection import ServiceConnector
from agent_host.services.oauth import OAuthTokens
from agent_host.services.paths import PathGlobs

AT_ONCE = 5
SECONDS = 1.0


async def test_a_command_that_hangs_runs_once_for_all_who_wait(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    waits = f"{shlex.quote(sys.executable)} -c 'import time; time.sleep(600)'"
    hanging = CommandSource(["sh", "-c", f"echo run >> {shlex.quote(str(runs))}; {waits}; true"])
    secrets = Secrets(SecretStore(tmp_path), {"key": hanging}, SystemClock(), SECONDS)
    for times in (1, 2):
        async with asyncio.timeout(60):
            found = await asyncio.gather(*(secrets.get("key") for _ in range(AT_ONCE)), return_exceptions=True)
        assert [error.code for error in found if isinstance(error, RequestError)] == ["secret_unavailable"] * AT_ONCE
        assert runs.read_text().count("run") == times, "who comes after a failure has an attempt of its own"


async def test_a_token_server_that_hangs_is_asked_once_for_all_who_wait() -> None:
    asked = 0

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        try:
            await reader.read()
        finally:
            writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    url = parse_url(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/token")
    credential = OAuthCredential("key", url, "me", scope=None, in_body=False)
    service = Service(
        name="inner",
        base_url=url,
        credential=credential,
        methods=("GET",),
        paths=PathGlobs.from_texts(["/**"]),
        agents=None,
        teams=None,
        rate=None,
        private=True,
        timeout=SECONDS,
    )
    tokens = OAuthTokens(ServiceConnector(), SystemClock(), SECONDS)
    try:
        async with asyncio.timeout(60):
            calls = (tokens.get(service, credential, "secret") for _ in range(AT_ONCE))
            found = await asyncio.gather(*calls, return_exceptions=True)
    finally:
        server.close()
    assert [error.code for error in found if isinstance(error, RequestError)] == ["service_timeout"] * AT_ONCE
    assert asked == 1
