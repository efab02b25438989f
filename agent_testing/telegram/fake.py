"""A Telegram for tests: a context manager with a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar

import uvicorn
import uvloop
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from agent_common.net import listen_at, parse_endpoint

from .fault_plan import TelegramFaults
from .faults import Fault, FaultKind, FaultPlan
from .journal import Call
from .limits import TelegramLimits, Violation
from .methods.chats import DEFAULT_SCOPE
from .model import Account, Chat, Topic
from .people import Group, User
from .server import BotServer
from .world import World

_START_SECONDS = 10.0
_STOP_SECONDS = 10.0
_BOT_ID = 7_000_000_001
_T = TypeVar("_T")


class FakeTelegram:
    """The Bot API of one bot, and the people who write to it.

        with FakeTelegram() as telegram:
            ann = telegram.create_user("Ann")
            ...  # start the bot with telegram.token and telegram.url
            ann.write(ann.chat, "hello")
            reply = telegram.wait_for(lambda: ann.chat.messages[1:])[0]

    `port` 0 is any free one. `limits` and `faults` may be set at any time; `clock` gives the seconds for rate limits
    and records. All may be called from any thread; a test within an event loop calls what waits by
    `asyncio.to_thread`.
    """

    def __init__(
        self,
        *,
        username: str = "helper_bot",
        limits: TelegramLimits | None = None,
        faults: TelegramFaults | None = None,
        reads_all_messages: bool = False,
        clock: Callable[[], float] = time.monotonic,
        port: int = 0,
    ) -> None:
        self.token = f"{_BOT_ID}:AAF-{'x' * 31}"
        self.bot = Account(id=_BOT_ID, name="Helper", username=username, is_bot=True)
        self._world = World(self.bot, limits or TelegramLimits(), clock, reads_all_messages)
        self._plan = FaultPlan(faults or TelegramFaults(), self._set_update_faults)
        self._server = BotServer(self._world, self.token, self._plan)
        self._port = port
        self._url: Future[str] = Future()
        self._thread = threading.Thread(target=self._run, name="fake-telegram", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._url.result(_START_SECONDS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.stop()
        self._uvicorn.should_exit = True
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            raise TimeoutError(f"the fake Telegram did not stop within {_STOP_SECONDS} s")

    @property
    def url(self) -> str:
        """The root, `http://127.0.0.1:PORT`; calls go to `{url}/bot{token}/METHOD`."""
        return self._url.result(0)

    # ---------------------------------------------------------------- people and groups

    def create_user(self, name: str, *, username: str | None = None, language: str = "en") -> User:
        """Create a person. The bot cannot write to them before they have written to it."""
        with self._world.changed:
            number = self._world.new_user_id()
            user = User(id=number, name=name, username=username, language=language, world=self._world)
            self._world.accounts[number] = user
            return user

    def create_group(self, title: str, *members: User, bot: str = "member") -> Group:
        """Create a basic group; `bot` is the status of the bot."""
        return self._create_group("group", title, members, bot, None)

    def create_supergroup(self, title: str, *members: User, bot: str = "member", topics: bool = False) -> Group:
        return self._create_group("supergroup", title, members, bot, {} if topics else None)

    def _create_group(
        self, kind: Any, title: str, members: tuple[User, ...], bot: str, topics: dict[int, Topic] | None
    ) -> Group:
        with self._world.changed:
            number = self._world.new_chat_id(kind)
            everyone = {**{member.id: "member" for member in members}, self.bot.id: bot}
            clock = self._world.clock
            group = Group(
                id=number, kind=kind, title=title, topics=topics, members=everyone, clock=clock, world=self._world
            )
            self._world.chats[number] = group
            return group

    # ---------------------------------------------------------------- what happened

    @property
    def journal(self) -> list[Call]:
        """All calls so far, oldest first; at most the latest hundred thousand."""
        with self._world.changed:
            return list(self._server.journal)

    def calls(self, method: str) -> list[Call]:
        """The calls of one method so far."""
        return [call for call in self.journal if call.method.lower() == method.lower()]

    @property
    def violations(self) -> list[Violation]:
        """The calls that came too fast, or before `retry_after` was over."""
        with self._world.changed:
            return list(self._world.limiter.violations)

    @property
    def chats(self) -> list[Chat]:
        with self._world.changed:
            return list(self._world.chats.values())

    @property
    def commands(self) -> dict[str, str]:
        """Description by name of the commands for all chats in all languages."""
        return self.commands_for()

    def commands_for(self, scope: str = DEFAULT_SCOPE, language: str = "") -> dict[str, str]:
        """Commands of one scope, which is compact JSON with sorted members."""
        with self._world.changed:
            commands = self._world.commands.get((scope, language), [])
        return {command["command"]: command["description"] for command in commands}

    @property
    def pending_updates(self) -> int:
        """How many updates the bot has not confirmed."""
        with self._world.changed:
            return self._world.updates.pending

    def wait_for(self, holds: Callable[[], _T], seconds: float = 10.0) -> _T:
        """Block until something holds, and return it. It is asked at every change. Raises TimeoutError."""
        with self._world.changed:
            if found := self._world.changed.wait_for(holds, seconds):
                return found
            latest = [f"{call.method}: {call.error or call.status}" for call in list(self._server.journal)[-5:]]
            raise TimeoutError(f"it did not hold within {seconds:g} s; the latest calls: {latest}")

    # ---------------------------------------------------------------- faults

    @property
    def limits(self) -> TelegramLimits:
        return self._world.limiter.limits

    @limits.setter
    def limits(self, limits: TelegramLimits) -> None:
        with self._world.changed:
            self._world.limiter.set_limits(limits)

    @property
    def faults(self) -> TelegramFaults:
        """What goes wrong at random from now on."""
        return self._plan.random

    @faults.setter
    def faults(self, faults: TelegramFaults) -> None:
        with self._world.changed:
            self._plan.random = faults

    def fail(
        self,
        method: str,
        kind: FaultKind,
        *,
        times: int = 1,
        skip: int = 0,
        seconds: float = 1.0,
        status: int = 502,
    ) -> None:
        """Let the next calls of a method fail, after `skip` good ones. `*` is any method, `file` a download.

        | kind | what happens |
        |---|---|
        | `too_many_requests` | refused with 429 and `retry_after` of `seconds` |
        | `server_error` | refused with `status` |
        | `html` | not carried out; a proxy answers with a page and `status` |
        | `cut_before` | the connection is lost before the call is carried out |
        | `cut_after` | the connection is lost after the call was carried out, without an answer |
        | `hang` | carried out, then no answer for `seconds`, then the connection is lost |
        | `slow` | carried out, and answered after `seconds` |
        """
        with self._world.changed:
            self._plan.add(method, Fault(kind, seconds, status), times, skip)

    def redeliver(self, update_id: int | None = None) -> int:
        """Hand out a confirmed update again, the newest if None, and return its id."""
        with self._world.changed:
            return self._world.updates.redeliver(update_id)

    def clear_faults(self) -> None:
        """Forget all faults, planned and random."""
        with self._world.changed:
            self._plan.clear()

    def cut_poll(self) -> None:
        """Cut the connection of the getUpdates that waits now."""
        self._server.cut_poll()

    def revoke_token(self) -> None:
        """Refuse the token from now on."""
        self._server.revoke_token()

    def _set_update_faults(self, faults: Any) -> None:
        self._world.updates.faults = faults

    # ---------------------------------------------------------------- the thread

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._url.done():
                raise
            self._url.set_exception(error)

    async def _serve(self) -> None:
        listening = listen_at(parse_endpoint(f"tcp://127.0.0.1:{self._port}", listening=True))
        config = uvicorn.Config(
            self._server.application(),
            timeout_graceful_shutdown=5,
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        self._uvicorn = uvicorn.Server(config)
        self._url.set_result(str(listening.endpoint).replace("tcp://", "http://"))
        await self._uvicorn.serve(sockets=[listening.sock])


class _Connection(HttpToolsProtocol):
    """Lets a request reach its transport, so that it can be cut."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope.setdefault("state", {})["transport"] = self.transport
