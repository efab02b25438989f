"""Exact counts of one conversation, each message counted once, and in a thread when there is much to count."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from .encodings import encoder, is_loaded
from .message_overhead import REPLY, Count, message_tokens, tools_tokens
from .models import EncodingName

T = TypeVar("T")
INLINE_BYTES = 16 * 1024
"""Bytes that are counted without a thread: about a millisecond."""


class ExactCounter:
    """Counts in one encoding. A message is known by its place and its bytes."""

    def __init__(self, name: EncodingName) -> None:
        self.name: EncodingName = name
        self._known: dict[int, tuple[bytes, int]] = {}
        self._tools: tuple[bytes, int] | None = None

    async def count_request(self, messages: Sequence[bytes], tools: bytes | None = None) -> int:
        """Tokens of a whole request. Whoever cancels it waits for no more than the message that is being counted."""
        of_messages = await self.count_messages(messages, 0)
        if not tools:
            return REPLY + of_messages
        if self._tools is None or self._tools[0] != tools:
            self._tools = (tools, await self._run(lambda count: tools_tokens(tools, self.name, count), len(tools)))
        return REPLY + of_messages + self._tools[1]

    async def count_messages(self, messages: Sequence[bytes], since: int) -> int:
        """Tokens of the messages from that place on."""
        places = range(since, len(messages))
        new = {at: messages[at] for at in places if at not in self._known or self._known[at][0] != messages[at]}
        stop = threading.Event()

        def each(count: Count) -> dict[int, tuple[bytes, int]]:
            counted: dict[int, tuple[bytes, int]] = {}
            for at, message in new.items():
                if stop.is_set():
                    break
                counted[at] = (message, message_tokens(message, count))
            return counted

        try:
            self._known |= await self._run(each, sum(map(len, new.values())))
        finally:
            stop.set()
        return sum(self._known[at][1] for at in places)

    async def _run(self, work: Callable[[Count], T], size: int) -> T:
        """In a thread when there are many bytes, or when the encoding must be loaded first."""
        if size <= INLINE_BYTES and is_loaded(self.name):
            return work(encoder(self.name).count)
        return await asyncio.to_thread(lambda: work(encoder(self.name).count))
