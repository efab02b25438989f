"""The body of a provider's answer: decompressed, told apart by its first byte, and read no longer than it lasts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx2

from agent_common.completions import Decompressor

from ...errors import ModelError, ProviderFailed
from ..providers import ProviderAnswer

_BOM = b"\xef\xbb\xbf"
_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:", b"error:")
_DECIDED = (b"{", b"[", b":")
_LONGEST_FIELD = max(map(len, _FIELDS))
END_SECONDS = 2.0
"""Maximum seconds for which an answer that is complete is read on for its usage."""


class AnswerBody:
    """The body of one answer. Raises ProviderFailed if it is compressed in a way that cannot be read."""

    def __init__(self, answer: ProviderAnswer) -> None:
        self._pieces = _plain(answer)
        self._labelled_as_events = answer.headers.get("content-type", "").startswith("text/event-stream")
        self._begun = b""
        self._answered = -1
        self._deadline = 0.0

    async def is_document(self) -> bool:
        """Whether it is one document, and not a stream of events: by its first bytes, then by its label."""
        while len(begun := self._begun.removeprefix(_BOM).lstrip()) < _LONGEST_FIELD and b"\n" not in begun:
            if begun.startswith(_DECIDED) or not (data := await anext(self._pieces, b"")):
                break
            self._begun += data
        if begun.startswith((b"{", b"[")):
            return True
        return not (begun.startswith(_FIELDS) or (begun and self._labelled_as_events))

    async def read(self, complete: bool = False, answered: int = 0) -> bytes:
        """Return the next bytes; none at its end. One that is `complete` is read on for END_SECONDS after the last of
        its pieces that has `answered` something."""
        if self._begun:
            begun = self._begun
            self._begun = b""
            return begun
        if not complete:
            return await anext(self._pieces, b"")
        if answered > self._answered:
            self._answered = answered
            self._deadline = asyncio.get_running_loop().time() + END_SECONDS
        # A failure after the end does not matter. Providers give it a meaning only outside of the body.
        with contextlib.suppress(TimeoutError, ProviderFailed, httpx2.TransportError):
            async with asyncio.timeout_at(self._deadline):
                return await anext(self._pieces, b"")
        return b""


async def _plain(answer: ProviderAnswer) -> AsyncIterator[bytes]:
    try:
        decompressor = Decompressor(answer.headers.get("content-encoding", ""))
        async for data in answer.body:
            for plain in filter(None, decompressor.feed(data)):  # no bytes mean the end
                yield plain
    except ModelError as error:
        raise ProviderFailed(error.message, code="provider_unreadable") from error
