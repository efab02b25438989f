"""A company's own certificate authority is trusted by every client, by one setting or the usual variables."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from agent_common.errors import StartError
from agent_common.net import NAMING_VARIABLES, authorities_pem, trusting_tls
from agent_host.settings import LOADER as HOST
from agent_runtime.settings import LOADER as RUNTIME

from .webs import Authority, authority, page, web

EVERY_CLIENT = """
import asyncio, sys

from agent_client import Agent
from agent_common.net import HttpPool
from agent_host.proxy.providers.http import open_client
from agent_runtime.connectors.transport.http_transport import http_client
from agent_runtime.connectors.transport.routes import Route
from frontends.discord.connection.client import Client

url = sys.argv[1]

async def by_pool():
    async with HttpPool(url, {}, read_timeout=9).request("GET", "/") as answer:
        assert answer.status == 200

async def by_provider():
    async with open_client(in_process=True) as client:
        (await client.get(url)).raise_for_status()

async def by_mcp():
    async with http_client(Route(None, None)) as client:
        (await client.get(url)).raise_for_status()

async def by_agent_client():
    async with Agent(url) as agent:
        await agent.capabilities()

async def by_discord():
    async with Client(url) as client:
        await client.login("token")

async def main():
    for call in (by_pool, by_provider, by_mcp, by_agent_client, by_discord):
        try:
            await call()
            print(call.__name__, "fine")
        except Exception as error:
            told = str(error).lower()
            print(call.__name__, "certificate" if "certificate" in told else "fine" if "404" in told else told)

asyncio.run(main())
"""
CLIENTS = ("by_pool", "by_provider", "by_mcp", "by_agent_client", "by_discord")


@pytest.fixture(scope="module")
def company(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("company"), "localhost")


@pytest.mark.parametrize("variable", NAMING_VARIABLES)
async def test_each_variable_names_authorities(company: Authority, variable: str, tmp_path: Path) -> None:
    named = company.certificate
    if variable == "SSL_CERT_DIR":
        named = _folder_of(company.certificate, tmp_path)
    async with web({"/": page(b"hello")}, company.server) as seen:
        context = trusting_tls({variable: str(named)})
        whole = ssl.create_default_context(cadata=authorities_pem({variable: str(named)}))
        for trusting in (context, whole):
            _, writer = await asyncio.open_connection("localhost", seen.port, ssl=trusting)
            writer.transport.abort()  # `close` would wait for the other side
        with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
            await asyncio.open_connection("localhost", seen.port, ssl=trusting_tls({}))


def test_the_setting_leaves_the_public_ones(company: Authority) -> None:
    public = len(trusting_tls({}).get_ca_certs())
    assert len(trusting_tls({"AGENT_CA_FILE": str(company.certificate)}).get_ca_certs()) == public + 1
    assert len(trusting_tls({"SSL_CERT_FILE": str(company.certificate)}).get_ca_certs()) == 1
    whole = authorities_pem({"AGENT_CA_FILE": str(company.certificate)})
    assert whole is not None
    assert whole.count("BEGIN CERTIFICATE") == public + 1
    assert authorities_pem({}) is None


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_a_file_that_holds_none_is_named_at_the_start(
    tmp_path: Path, content: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "company.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("AGENT_CA_FILE", str(path))
    for loader in (RUNTIME, HOST):
        with pytest.raises(StartError, match=r"AGENT_CA_FILE.*company\.pem"):
            loader.load()


@pytest.mark.parametrize(
    "variable",
    [
        "AGENT_CA_FILE",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", None)),
    ],
)
async def test_every_client_trusts_them(company: Authority, variable: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in NAMING_VARIABLES}
    environment |= {variable: str(company.certificate)} if variable else {}
    async with web({"/": page(b"hello")}, company.server) as seen:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", EVERY_CLIENT, f"https://localhost:{seen.port}/"),
            env=environment,
            stdout=subprocess.PIPE,
        )
        try:
            printed, _ = await asyncio.wait_for(child.communicate(), 120)
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()
    expected = "fine" if variable else "certificate"
    assert dict(
        line.split(" ", 1) for line in printed.decode().splitlines() if line.startswith("by_")
    ) == dict.fromkeys(CLIENTS, expected)


def _folder_of(certificate: Path, folder: Path) -> Path:
    """A folder as OpenSSL reads it: names are hashes of subjects."""
    openssl = shutil.which("openssl")
    assert openssl
    argv = (openssl, "x509", "-hash", "-noout", "-in", str(certificate))
    name = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    shutil.copy(certificate, folder / f"{name}.0")
    return folder
