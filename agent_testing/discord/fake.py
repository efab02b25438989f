"""Discord on a loopback port: a context manager with a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from .faults import Faults, RandomFaults
from .journal import Request
from .limits import Limiter, RateLimits, Violation
from .people import User
from .world import channels
from .world.entities import Account, Bot, Channel, Guild, Message
from .world.state import World

if TYPE_CHECKING:
    from .gateway import GatewayConnection
    from .server import DiscordServer

_START_SECONDS = 10.0
_STOP_SECONDS = 10.0
T = TypeVar("T")


class FakeDiscord:
    """Discord's REST API and gateway, version 10, for one or more bots.

        with FakeDiscord() as discord_:
            ada = discord_.user("ada")
            ada.write(ada.dm(), "hello")
            reply = discord_.wait_for(lambda: ada.dm().messages[1:])[0]

    Everything it keeps survives restarts of the bot. All methods may be called from any thread; those that wait block,
    so call them with `asyncio.to_thread` where the bot runs in the same event loop. Needs the extra `bots`.
    """

    def __init__(
        self,
        *,
        token: str = "discord-token",  # noqa: S107 - it opens nothing but the double
        limits: RateLimits | None = None,
        faults: RandomFaults | None = None,
        heartbeat_seconds: float = 41.25,
        interaction_seconds: float = 3.0,
        upload_bytes: int = 10 << 20,
        port: int = 0,
    ) -> None:
        self.faults = Faults(faults)
        self._world = World(self.faults)
        self._limiter = Limiter(limits or RateLimits())
        self._options: dict[str, Any] = {
            "heartbeat_seconds": heartbeat_seconds,
            "interaction_seconds": interaction_seconds,
            "upload_bytes": upload_bytes,
        }
        self._port = port
        self._url: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name="fake-discord", daemon=True)
        self.bot = self.add_bot("agent", token)
        """The first bot."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._url.result(_START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"the fake Discord did not stop within {_STOP_SECONDS} s")

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`; the API is below `/api/v10`."""
        return self._url.result(0)

    @property
    def gateway_url(self) -> str:
        """`ws://127.0.0.1:PORT/`, as `GET /gateway/bot` names it."""
        return self._world.gateway_url

    # ---------------------------------------------------------------- what there is

    def add_bot(self, name: str, token: str) -> Bot:
        with self._world.lock:
            bot = Bot(self._world.new_id(), name, is_bot=True, token=token)
            self._world.accounts[bot.id] = bot
            return bot

    def user(self, name: str) -> User:
        """A new person."""
        with self._world.lock:
            user = User(self._world, self._world.new_id(), name)
            self._world.accounts[user.id] = user
            return user

    def guild(self, name: str, members: Iterable[Account], bots: Iterable[Bot] | None = None) -> Guild:
        """A new guild; the first member owns it. None is the first bot."""
        with self._world.lock:
            people = list(members)
            guild = Guild(self._world.new_id(), name, people[0])
            self._world.guilds[guild.id] = guild
            for account in [*people, *([self.bot] if bots is None else bots)]:
                channels.join(self._world, guild, account)
            return guild

    def text_channel(self, guild: Guild, name: str) -> Channel:
        with self._world.lock:
            return channels.text_channel(self._world, guild, name)

    def join(self, guild: Guild, account: Account) -> None:
        with self._world.lock:
            channels.join(self._world, guild, account)

    def kick(self, guild: Guild, account: Account) -> None:
        with self._world.lock:
            channels.kick(self._world, guild, account)

    def delete_channel(self, channel: Channel) -> None:
        with self._world.lock:
            channels.delete_channel(self._world, channel)

    def revoke(self, bot: Bot | None = None) -> None:
        """The token of a bot is not valid any more: REST 401, and the gateway closes with 4004."""
        with self._world.lock:
            revoked = bot or self.bot
            revoked.revoked = True
            for session in [each for each in self._world.sessions if each.bot is revoked]:
                self._world.end_session(session)

        def close(connection: GatewayConnection) -> None:
            if connection.session is not None and connection.session.bot.revoked:
                connection.close(4004, "Authentication failed")

        self._each_connection(close)

    # ---------------------------------------------------------------- what has happened

    @property
    def messages(self) -> list[Message]:
        """All messages of all channels that were not deleted, with ephemeral ones, oldest first."""
        return [each for each in list(self._world.messages.values()) if not each.deleted]

    @property
    def journal(self) -> list[Request]:
        """All requests to the REST API in their order, at most the latest hundred thousand."""
        return list(self._server.rest.journal)

    @property
    def hanging(self) -> int:
        """How many requests a fault holds up now."""
        return self._server.rest.hanging

    @property
    def violations(self) -> list[Violation]:
        """Rules that the bot broke: limits that it ignored, storms of invalid requests."""
        return list(self._limiter.violations)

    def wait_for(self, predicate: Callable[[], T | None], seconds: float = 10.0) -> T:
        """Block until the predicate gives something true, and return that. Raises TimeoutError."""
        return self._world.wait_for(predicate, seconds)

    def wait_for_session(self, bot: Bot | None = None, seconds: float = 10.0) -> None:
        """Block until a bot is connected to the gateway and was sent its events."""
        wanted = bot or self.bot
        self.wait_for(lambda: any(each.bot is wanted and each.wake for each in self._world.sessions), seconds)

    # ---------------------------------------------------------------- faults of the gateway

    @property
    def connected(self) -> int:
        """How many connections of the gateway have a session."""
        with self._world.lock:
            return sum(each.wake is not None for each in self._world.sessions)

    def cut_gateway(self) -> int:
        """Lose all connections of the gateway; their sessions can be resumed. Return how many."""
        return self._each_connection(lambda connection: connection.cut())

    def ask_to_reconnect(self) -> int:
        """Have all bots reconnect and resume."""
        return self._each_connection(lambda connection: connection.ask_to_reconnect())

    def invalidate_sessions(self, *, tell: bool = True) -> int:
        """Forget all sessions: events that a bot has not received are lost to it. `tell` False only cuts."""
        with self._world.lock:
            for session in list(self._world.sessions):
                self._world.end_session(session)
        if tell:
            return self._each_connection(lambda connection: connection.invalidate(resumable=False))
        return self.cut_gateway()

    def _each_connection(self, act: Callable[[GatewayConnection], Awaitable[None] | None]) -> int:
        return self._call(self._server.each_connection(act))

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_STOP_SECONDS)

    # ---------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            with asyncio.Runner() as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._url.done():
                raise
            self._url.set_exception(error)

    async def _serve(self) -> None:
        try:
            from .server import DiscordServer
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"{error}: FakeDiscord needs the extra `bots`") from error
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._server: DiscordServer = DiscordServer(self._world, self._limiter, **self._options)
        self._url.set_result(await self._server.start(self._port))
        await self._stopping.wait()
        await self._server.stop()
