"""A connection of the gateway: a websocket that says hello, identifies or resumes a session, and sends its events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import zlib
from collections import deque
from typing import Any, cast

from aiohttp import WSMsgType, web

from .limits import Limiter
from .world import intents
from .world.entities import JSON, Bot
from .world.greeting import greet, send_members
from .world.sessions import Session
from .world.state import World

_MOST_BYTES = 4096
_CLOSE_SECONDS = 1.0
"""How long a bot has to answer the end of its connection."""
HEARTBEAT = 1
RECONNECT = 7
INVALID = 9
HELLO = 10
ACK = 11


class Closed(Exception):
    """The gateway ends the connection with a code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class GatewayConnection:
    """One websocket. `run` returns when it has ended."""

    def __init__(self, world: World, limiter: Limiter, *, heartbeat_seconds: float) -> None:
        self.session: Session | None = None
        self._world = world
        self._limiter = limiter
        self._heartbeat_seconds = heartbeat_seconds
        self._socket = web.WebSocketResponse(timeout=_CLOSE_SECONDS, max_msg_size=1 << 20, compress=False)
        self._compressor: Any = None
        self._sent = 0
        """Sequence number of the last event that was sent on this connection."""
        self._wake = asyncio.Event()
        self._requests: deque[float] = deque()
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[Closed] = self._loop.create_future()
        """Why the double ends the connection."""
        self._transport: asyncio.BaseTransport | None = None

    async def run(self, request: web.Request) -> web.WebSocketResponse:
        await self._socket.prepare(request)
        self._transport = request.transport
        sender: asyncio.Task[None] | None = None
        try:
            self._open(request)
            interval = int(self._heartbeat_seconds * 1000)
            await self._send({"op": HELLO, "t": None, "s": None, "d": {"heartbeat_interval": interval}})
            sender = asyncio.create_task(self._send_events())
            await self._receive_until_stopped()
        except Closed as closed:
            await self._socket.close(code=closed.code, message=closed.reason.encode())
        except ConnectionError:
            pass  # the bot is gone
        finally:
            self._leave()
            if sender:
                sender.cancel()
                await asyncio.wait([sender])
        return self._socket

    def _open(self, request: web.Request) -> None:
        if request.query.get("v") != "10":
            raise Closed(4012, "Invalid API version")
        if request.query.get("encoding", "json") != "json":
            raise Closed(4002, "This double speaks JSON only")
        match request.query.get("compress"):
            case None:
                pass
            case "zlib-stream":
                self._compressor = zlib.compressobj()
            case _:
                raise Closed(4002, "This double compresses with zlib-stream only")

    # ---------------------------------------------------------------- from the bot

    async def _receive_until_stopped(self) -> None:
        receiving = asyncio.create_task(self._receive())
        try:
            await asyncio.wait([receiving, self._stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            receiving.cancel()
            await asyncio.wait([receiving])
        if self._stopped.done():
            raise self._stopped.result()
        receiving.result()

    async def _receive(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._heartbeat_seconds * 1.5):
                    beat = await self._receive_heartbeat()
            except TimeoutError:
                raise Closed(4009, "Session timed out") from None
            if not beat:
                return

    async def _receive_heartbeat(self) -> bool:
        """Handle frames until a heartbeat came; False when the connection has ended."""
        while True:
            message = await self._socket.receive()
            if message.type not in {WSMsgType.TEXT, WSMsgType.BINARY}:
                return False
            if await self._handle(self._parse(message.data)) == HEARTBEAT:
                return True

    def _parse(self, data: str | bytes) -> JSON:
        now = time.monotonic()
        self._requests.append(now)
        while self._requests[0] < now - 60:
            self._requests.popleft()
        if len(self._requests) > self._limiter.limits.gateway:
            with self._world.lock:
                self._limiter.report("gateway", f"more than {self._limiter.limits.gateway} frames in a minute")
            raise Closed(4008, "Rate limited")
        if len(data) > _MOST_BYTES:
            raise Closed(4002, "Payload too large")
        try:
            frame = json.loads(data)
        except ValueError:
            raise Closed(4002, "Error while decoding payload") from None
        if not isinstance(frame, dict) or not isinstance(frame.get("op"), int):  # pyright: ignore[reportUnknownMemberType]
            raise Closed(4002, "Error while decoding payload")
        return frame  # pyright: ignore[reportUnknownVariableType]

    async def _handle(self, frame: JSON) -> int:
        operation = frame["op"]
        data = frame.get("d")
        fields: JSON = data if isinstance(data, dict) else {}  # pyright: ignore[reportUnknownVariableType]
        match operation:
            case 1:
                if self._world.faults.heartbeats_acknowledged:
                    await self._send({"op": ACK, "t": None, "s": None, "d": None})
            case 2 | 6 if self.session is not None:
                raise Closed(4005, "Already authenticated")
            case 2:
                self._identify(fields)
            case 6:
                await self._resume(fields)
            case 3 | 4 | 8 if self.session is None:
                raise Closed(4003, "Not authenticated")
            case 8:
                self._send_members(fields)
            case 3 | 4:
                pass
            case _:
                raise Closed(4001, "Unknown opcode")
        return operation

    def _identify(self, data: JSON) -> None:
        with self._world.lock:
            bot = self._bot(data)
            wanted = data.get("intents")
            if not isinstance(wanted, int) or wanted & ~intents.ALL:
                raise Closed(4013, "Invalid intent(s)")
            if intents.refused(bot, wanted):
                raise Closed(4014, "Disallowed intent(s)")
            if data.get("shard", [0, 1]) != [0, 1]:
                raise Closed(4010, "Invalid shard")
            session = Session(self._world.new_token(), bot, wanted)
            self._limiter.forget_answers()
            greet(self._world, session)
            self._world.sessions.append(session)
            self._attach(session, 0)
            self._world.changed()

    def _bot(self, data: JSON) -> Bot:
        bot = self._world.bot_of(str(data.get("token", "")).removeprefix("Bot "))
        if bot is None:
            raise Closed(4004, "Authentication failed")
        return bot

    async def _resume(self, data: JSON) -> None:
        with self._world.lock:
            bot = self._bot(data)
            session = self._resumable(bot, data.get("session_id"))
            sequence = data.get("seq")
            if session is not None:
                if not isinstance(sequence, int) or sequence > session.last or not session.has_after(sequence):
                    raise Closed(4007, "Invalid seq")
                self._attach(session, sequence)
                session.dispatch("RESUMED", {"_trace": []})
                self._world.changed()
        if session is None:
            await self.invalidate(resumable=False)

    def _resumable(self, bot: Bot, identity: object) -> Session | None:
        session = next((each for each in self._world.sessions if each.id == identity and each.bot is bot), None)
        return None if session is None or session.expired else session

    def _attach(self, session: Session, sent: int) -> None:
        self.session = session
        self._sent = sent
        session.left_at = None
        session.wake = self._wake_sender
        self._wake.set()

    def _leave(self) -> None:
        with self._world.lock:
            if self.session is not None and self.session.wake == self._wake_sender:
                self.session.wake = None
                self.session.left_at = time.monotonic()
            self._world.changed()

    def _send_members(self, data: JSON) -> None:
        guild = _snowflake(data.get("guild_id"))
        wanted = _snowflakes(data.get("user_ids") or [])
        with self._world.lock:
            if self.session is not None:
                send_members(self._world, self.session, guild, wanted, data.get("nonce"))

    # ---------------------------------------------------------------- to the bot

    def _wake_sender(self) -> None:
        with contextlib.suppress(RuntimeError):  # the server has stopped
            self._loop.call_soon_threadsafe(self._wake.set)

    async def _send_events(self) -> None:
        with contextlib.suppress(ConnectionError):
            while True:
                await self._wake.wait()
                self._wake.clear()
                for frame in self._take():
                    if self._world.faults.cuts_gateway():
                        self.cut()
                        return
                    await self._send_text(frame)
                    self._sent += 1

    def _take(self) -> list[str]:
        with self._world.lock:
            session = self.session
            if session is None:
                return []
            if not session.has_after(self._sent):
                self.cut()  # the bot reads so slowly that events for it are lost
            return session.after(self._sent)

    async def _send(self, frame: JSON) -> None:
        await self._send_text(json.dumps(frame))

    async def _send_text(self, text: str) -> None:
        if self._compressor is None:
            await self._socket.send_str(text)
            return
        data = self._compressor.compress(text.encode()) + self._compressor.flush(zlib.Z_SYNC_FLUSH)
        await self._socket.send_bytes(data)

    # ---------------------------------------------------------------- faults

    def cut(self) -> None:
        """Lose the connection without a word."""
        if isinstance(self._transport, asyncio.Transport):
            self._transport.abort()

    def close(self, code: int, reason: str) -> None:
        if not self._stopped.done():
            self._stopped.set_result(Closed(code, reason))

    async def ask_to_reconnect(self) -> None:
        await self._send({"op": RECONNECT, "t": None, "s": None, "d": None})

    async def invalidate(self, *, resumable: bool) -> None:
        await self._send({"op": INVALID, "t": None, "s": None, "d": resumable})


def _snowflakes(value: object) -> set[int]:
    return {_snowflake(each) for each in (cast("list[object]", value) if isinstance(value, list) else [value])}


def _snowflake(value: object) -> int:
    text = str(value)
    if not text.isdecimal() or len(text) > 20:
        raise Closed(4002, "Error while decoding payload")
    return int(text)
