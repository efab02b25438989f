"""Joins a unix socket to an address, as the monitor of a virtual machine does: `python relay.py unix:/path tcp://...`."""

from __future__ import annotations

import asyncio
import sys

from agent_common.net import listen_at, open_endpoint, parse_endpoint


async def main(here: str, there: str) -> None:
    target = parse_endpoint(there)

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await open_endpoint(target)
        try:
            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))
        finally:
            far_writer.close()
            writer.close()

    with listen_at(parse_endpoint(here, listening=True)) as listening:
        async with await asyncio.start_unix_server(join, sock=listening.sock):
            print("joined", flush=True)
            await asyncio.Event().wait()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
