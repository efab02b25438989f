"""Lists in pages, also of a server that never comes to their end."""

from __future__ import annotations

from collections.abc import Iterable

import httpx2
import pytest

from agent_client import UnexpectedReply
from agent_client.http import Call, Connection
from agent_client.http.pages import pages
from agent_common.protocol import PendingList

from .test_connection import Server


def server(positions: Iterable[str | None]) -> Server:
    return Server(*(httpx2.Response(200, json={"pending": [], "next": position}) for position in positions))


async def count(positions: Iterable[str | None]) -> int:
    connection = Connection("http://agent.test", None, transport=server(positions))
    try:
        return len([page async for page in pages(connection, PendingList, Call("GET", "/pending"), most=5)])
    finally:
        await connection.aclose()


async def test_pages_are_read_until_the_last() -> None:
    assert await count(["1.", "2.", None]) == 3


@pytest.mark.parametrize("positions", [["1.", "1."], [f"{number}." for number in range(9)]])
async def test_a_list_that_does_not_end_is_given_up(positions: list[str]) -> None:
    with pytest.raises(UnexpectedReply):
        await count(positions)
