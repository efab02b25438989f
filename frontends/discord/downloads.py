"""Files that people sent, fetched from where Discord keeps them."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import aiohttp

from ..platform import ChatGone, IncomingFile, MessageGone, PlatformError, TemporarilyUnavailable, TokenRejected
from .connection import Client, named
from .updates import attachments

DOWNLOAD_BYTES = 100 * 1024 * 1024
_CHUNK = 64 * 1024
_SECONDS = aiohttp.ClientTimeout(sock_connect=10, sock_read=30)


async def download(client: Client, file: IncomingFile) -> AsyncGenerator[bytes]:
    """Yield the content of a file. Discord's addresses expire, so the message is read for the present one."""
    address = await _address(client, file.reference)
    received = 0
    connector = client.http.connector
    async with (
        named(seconds=None),
        aiohttp.ClientSession(connector=connector, connector_owner=False, timeout=_SECONDS) as session,
        session.get(address) as response,
    ):
        if response.status == 429 or response.status >= 500:
            raise TemporarilyUnavailable(f"Discord answers {response.status}", refused=True)
        if response.status != 200:
            raise PlatformError(f"Discord does not hand out the file {file.name!r}: {response.status}")
        async for chunk in response.content.iter_chunked(_CHUNK):
            received += len(chunk)
            if received > DOWNLOAD_BYTES:
                raise PlatformError(f"the file {file.name!r} has more than {DOWNLOAD_BYTES} bytes")
            yield chunk


async def _address(client: Client, reference: str) -> str:
    where, _, first = reference.partition(" ")
    channel, message_id, number = map(int, where.split("/"))
    try:
        async with named():
            message = await client.get_partial_messageable(channel).fetch_message(message_id)
    except (ChatGone, MessageGone, TemporarilyUnavailable, TokenRejected):
        raise
    except PlatformError:  # the bot may not read messages again
        return first
    for attachment in attachments(message):
        if attachment.id == number:
            return attachment.url
    raise MessageGone("the file was removed from its message")
