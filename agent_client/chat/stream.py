"""A turn as it happens: iterate over its events, or wait for its reply."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from http import HTTPStatus
from time import monotonic
from types import TracebackType
from typing import Self

import httpx2
from pydantic import ValidationError

from agent_common.protocol import chunks as c

from ..errors import ClientError, ConnectionFailed, UnexpectedReply
from ..http import RECONNECT_SECONDS, Call, Connection, resumed
from .events import ChatEvent, Finished, Reply, Started
from .turn_reader import TurnReader


class TurnFailed(ClientError):
    """A chat turn ended without an answer."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.error or f"the turn ended with {reply.finish_reason}")
        self.reply = reply
        """What the agent had said until then."""

    @property
    def code(self) -> str | None:
        """Why, as a stable word."""
        return self.reply.error_code

    @property
    def retry_after(self) -> float | None:
        """Seconds that the model's provider asks to wait."""
        return self.reply.retry_after


class ChatStream:
    """The events of one turn, each exactly once, however often the connection breaks.

        async with agent.chat("hello") as turn:
            async for event in turn: ...
        reply = await agent.chat("hello").reply()

    Hanging up does not stop the turn; `agent.abort` does. Waits for a person are part of the stream.
    """

    def __init__(
        self,
        connection: Connection,
        call: Call,
        wait: float,
        reconnect: float = RECONNECT_SECONDS,
        *,
        any_turn: bool = False,
    ) -> None:
        self._connection = connection
        self._call = call
        self._any_turn = any_turn
        """Whether the call names no turn. A reconnection then names the turn that the first connection has followed."""
        self._events = self._follow(wait, reconnect)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatEvent:
        return await anext(self._events)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop watching."""
        await self._events.aclose()

    async def reply(self) -> Reply:
        """Read to the end and return the reply. Raises TurnFailed if the turn failed or was aborted, other ClientError
        if it cannot be followed."""
        reply: Reply | None = None
        async with aclosing(self._events) as events:
            async for event in events:
                if isinstance(event, Finished):
                    reply = event.reply
        if reply is None:
            raise UnexpectedReply("nothing runs in this session")
        if reply.failed:
            raise TurnFailed(reply)
        return reply

    async def _follow(self, wait: float, reconnect: float) -> AsyncGenerator[ChatEvent]:
        reader = TurnReader()
        deadline = monotonic() + wait
        async with aclosing(resumed(lambda: self._read(reader), deadline=deadline, within=reconnect)) as events:
            async for event in events:
                yield event

    async def _read(self, reader: TurnReader) -> AsyncGenerator[ChatEvent | None]:
        """Read one connection to its end; None says that it is open. A stream without `[DONE]` was cut off."""
        reader.reconnected()
        done = False
        try:
            async with self._connection.stream(self._call) as response:
                if response.status_code == HTTPStatus.NO_CONTENT:
                    return
                yield None
                async for event in httpx2.EventSource(response, max_event_size=self._connection.max_answer):
                    if event.data == "[DONE]":
                        done = True  # what follows is the end of the response, after which its connection is used again
                        continue
                    for news in _news(reader, event.data):
                        if self._any_turn and isinstance(news, Started):
                            self._call = replace(
                                self._call, params={**self._call.params, "message_id": news.message_id}
                            )
                        yield news
            if not done:
                raise ConnectionFailed(f"{self._call.path}: the stream was cut off")
        except ConnectionFailed:
            if not done:
                raise


def _news(reader: TurnReader, data: str) -> Sequence[ChatEvent]:
    """Return the events of a chunk. What a chunk holds beside the protocol's own fields, its agent says."""
    try:
        return [*reader.read(_chunk(data))]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnexpectedReply(f"a chunk that cannot be read: {data[:200]}") from error


def _chunk(data: str) -> c.AnyChunk:
    try:
        return c.chunk_adapter().validate_json(data)
    except ValidationError as error:
        raise UnexpectedReply(f"not a chunk of this protocol: {data[:200]}") from error
