"""A name is looked up once: the address that was checked is the one that is connected to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agent_common.net import parse_url
from agent_host.services.connection import ServiceConnector
from agent_host.services.errors import ServiceFailed


class Rebinding:
    """A name that leads to a public address first, and to this machine from then on."""

    def __init__(self, *answers: str) -> None:
        self.answers, self.asked = list(answers), 0

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked += 1
        return [self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]]


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "fd00::1", "::ffff:127.0.0.1"])
async def test_a_name_that_leads_inside_is_refused(address: str) -> None:
    connector = ServiceConnector(Rebinding(address))
    with pytest.raises(ServiceFailed, match=r"service\.example leads to") as caught:
        async with connector.open(parse_url("https://service.example/"), private=False):
            pass
    assert caught.value.code == "address_not_allowed"


async def test_a_name_that_changes_meanwhile_is_looked_up_once() -> None:
    names = Rebinding("192.0.2.1", "127.0.0.1")
    connector = ServiceConnector(names)
    with pytest.raises(ServiceFailed, match="reserved for documentation"):
        async with connector.open(parse_url("https://service.example/"), private=False):
            pass
    assert names.asked == 1


async def test_a_private_service_may_be_inside() -> None:
    served = asyncio.Event()

    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        served.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with ServiceConnector(Rebinding("127.0.0.1")).open(
            parse_url(f"http://inner.example:{port}/"), private=True
        ):
            await served.wait()
    finally:
        server.close()
