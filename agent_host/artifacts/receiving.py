"""Receive the bytes of an artifact: to the disk as they come, hashed and counted."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import BinaryIO

from starlette.requests import ClientDisconnect

from agent_common.protocol import MAX_ARTIFACT_BYTES

from .errors import ArtifactTooLarge, UploadFailed, UploadTooSlow

UPLOAD_SECONDS = 600.0
"""Seconds within which a body must be complete."""
_WRITTEN_AT_ONCE = 1 << 20


def check_size(size: int) -> None:
    """Raise ArtifactTooLarge."""
    if size > MAX_ARTIFACT_BYTES:
        raise ArtifactTooLarge(f"the body has more than {MAX_ARTIFACT_BYTES} bytes; store it in parts")


async def receive(body: AsyncIterator[bytes], file: BinaryIO, seconds: float = UPLOAD_SECONDS) -> tuple[int, str]:
    """Write the body to the file. Returns its bytes and its SHA-256.

    Raises ArtifactTooLarge, UploadFailed if its sender goes away, and UploadTooSlow."""
    digest = hashlib.sha256()
    waiting = bytearray()
    size = 0

    def write(data: bytes) -> None:
        digest.update(data)
        file.write(data)

    try:
        async with asyncio.timeout(seconds):
            async for piece in body:
                size += len(piece)
                check_size(size)
                waiting += piece
                if len(waiting) >= _WRITTEN_AT_ONCE:
                    await asyncio.to_thread(write, bytes(waiting))
                    waiting.clear()
            await asyncio.to_thread(write, bytes(waiting))
    except ClientDisconnect:
        raise UploadFailed("the body ended before it was complete; send it again") from None
    except TimeoutError:
        raise UploadTooSlow(f"the body has not come within {seconds:g} s") from None
    return size, digest.hexdigest()
