"""Where uv may go: the index itself, whatever its address, and public hosts."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.errors import ToolFailure
from agent_runtime.skills.dependencies import PackageIndex


async def test_an_index_on_this_machine_leads_to_no_other_port_of_it() -> None:
    greeted = asyncio.Event()

    def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        greeted.set()

    async with (
        await asyncio.start_server(greet, "127.0.0.1", 0) as index,
        await asyncio.start_server(greet, "127.0.0.1", 0) as other,
    ):
        own, neighbour = (server.sockets[0].getsockname()[1] for server in (index, other))
        packages = PackageIndex(f"http://127.0.0.1:{own}/simple")
        (await packages.open("127.0.0.1", own)).close()
        await greeted.wait()
        with pytest.raises(ToolFailure, match="only public hosts"):
            await packages.open("127.0.0.1", neighbour)
