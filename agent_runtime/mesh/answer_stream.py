"""Read the body of one answer while it comes, up to its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

from agent_common.completions import (
    AnswerPiece,
    CompletionReader,
    Decompressor,
    DocumentEnd,
    EventSplitter,
    decompress,
    read_event,
)
from agent_common.json_reader import INLINE_BYTES, run_by_size
from agent_common.net import HttpResponse, TransportFault

from ..errors import ModelError

END_SECONDS = 2.0
"""Maximum seconds for which a usage report or the mark of the end is waited for once the answer is complete."""
DRAIN_SECONDS = 0.5
"""Maximum seconds to read the rest of a body so that its connection can be reused."""
MAX_REFUSAL_BYTES = 1024 * 1024
"""Most bytes of a refusal that are read, compressed or not."""
_QUOTED = 300
_NO_WORDS = (b"{", b"[", b'"', b"DONE")
"""What begins JSON that was damaged, or marks an end that nothing else shows to be one."""


async def read_answer(reply: HttpResponse, reader: CompletionReader) -> AsyncIterator[AnswerPiece]:
    """Yield the pieces of an answer. Raises ModelError, and TransportFault if the connection fails before its end."""
    body = _AnswerBody(reply, reader)
    while data := await body.read():
        for text in body.texts(data):
            event = body.event(text) if len(text) <= INLINE_BYTES else await _read_large(body, text)
            for piece in reader.feed(event, body.splitter.name):
                yield piece
        if reader.done:
            break
    for text in body.splitter.finish():
        for piece in reader.feed(await _read_large(body, text), body.splitter.name):
            yield piece
    _require_answer(reader, body)
    for piece in reader.finish():
        yield piece
    if reader.nothing or (reader.empty and reader.finish_reason is None):
        raise ModelError("the model's answer holds nothing", transient=True)
    if reader.done:
        await body.drain()


async def read_refusal(reply: HttpResponse) -> bytes:
    """Return the body of a refusal, decompressed; of a long one the beginning. Raises TransportFault if the connection
    fails before its end."""
    body = bytearray()
    end = DocumentEnd()
    deadline = None
    while len(body) < MAX_REFUSAL_BYTES:
        if deadline is None and end.reached(body):
            deadline = asyncio.get_running_loop().time() + END_SECONDS
        try:
            async with asyncio.timeout_at(deadline):
                data = await anext(reply.pieces, b"")
        except (TimeoutError, TransportFault):
            if deadline is None:
                raise
            break  # a failure after the end does not matter
        if not data:
            break
        body += data
    return decompress(bytes(body), reply.headers.get("content-encoding", ""), MAX_REFUSAL_BYTES)


class _AnswerBody:
    """The body of an answer, for as long as it is worth reading."""

    def __init__(self, reply: HttpResponse, reader: CompletionReader) -> None:
        self.splitter = EventSplitter()
        self._pieces = reply.pieces
        self._reader = reader
        self._decompressor = Decompressor(reply.headers.get("content-encoding", ""))
        self._progress = 0
        self.words: ModelError | None = None
        """The error of the first event that was words, such as a `ping`."""
        self._deadline: float | None = None
        """When the answer, which is complete, is no longer waited on."""

    async def read(self) -> bytes:
        """Return the next bytes; none at the end, or when the answer is complete and enough was waited."""
        if not (self._reader.complete or self.splitter.whole):
            return await anext(self._pieces, b"")
        if self._deadline is None or self._reader.progress > self._progress:
            self._progress = self._reader.progress
            self._deadline = asyncio.get_running_loop().time() + END_SECONDS
        with contextlib.suppress(TimeoutError, TransportFault):  # a failure after the end does not matter
            async with asyncio.timeout_at(self._deadline):
                return await anext(self._pieces, b"")
        return b""

    def texts(self, data: bytes) -> Iterator[bytes]:
        """Return the events that are complete with these bytes."""
        return self.splitter.feed(data) if self._decompressor.passes(data) else self._unpacked(data)

    def _unpacked(self, data: bytes) -> Iterator[bytes]:
        for plain in self._decompressor.feed(data):
            yield from self.splitter.feed(plain)

    def event(self, text: bytes) -> dict[str, Any] | None:
        """Read an event. What cannot be read says nothing behind the end of the answer, or if it is words. One that is
        named an error does, unless the answer is there."""
        try:
            return read_event(text)
        except ModelError as error:
            words = not text.startswith(_NO_WORDS)
            says_nothing = self._reader.complete or words
            if not self._reader.answered and (self.splitter.name == "error" or not says_nothing):
                raise
            self.words = self.words or error
            return {}

    async def drain(self) -> None:
        """Read the rest for a short time, so that the connection can be reused."""
        with contextlib.suppress(TimeoutError, TransportFault):
            async with asyncio.timeout(DRAIN_SECONDS):
                async for _ in self._pieces:
                    pass


async def _read_large(body: _AnswerBody, text: bytes) -> dict[str, Any] | None:
    """Read an event, in a thread if it is large."""
    return await run_by_size(len(text), partial(body.event, text))


def _require_answer(reader: CompletionReader, body: _AnswerBody) -> None:
    """Raise ModelError if what has come is no answer."""
    splitter = body.splitter
    if body.words is not None and reader.nothing:
        raise body.words
    reader.done = reader.done or splitter.form == "document"
    if not reader.complete:
        if reader.nothing and splitter.other.strip():
            words = splitter.other[:_QUOTED].decode("utf-8", "replace").strip()
            raise ModelError(f"the model endpoint answered with something that is not a completion: {words!r}")
        raise ModelError("the model's answer ended too early", transient=True)
