"""The process of the bots, from its start to its end: the only place where all parts meet."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Protocol

from agent_common.clock import Clock, SystemClock
from agent_common.telemetry import logger

from ..conversation import Bot
from ..people import allow_in
from ..platform import Command, Platform, PlatformError
from ..settings import BotSettings, BotsSettings
from ..store import NAME, Database, locked_folder, prune_in
from .chats import Chats, Handler
from .host_token import check_host_token
from .intake import Intake
from .pairings import announce_pairings
from .receiving import receive_updates
from .tasks import closed, restarted, running

if TYPE_CHECKING:
    from agent_client import Mesh

log = logger(__name__)
PRUNE_SECONDS = 3600.0
MAX_ANSWER_BYTES = 16 << 20
"""Of one answer of the host or an agent, and of one event of a turn: all bots share one process."""


class Engine(Handler, Protocol):
    """What carries out updates, and follows what they have caused."""

    async def run(self) -> None:
        """Do what there is to do beside single updates, until it is cancelled."""
        ...


class EngineFactory(Protocol):
    def __call__(
        self, bots: Sequence[Bot], database: Database, mesh: Mesh, clock: Clock, *, notify: Sequence[str]
    ) -> Engine:
        """Make one. `notify` has the URLs for notices, as apprise takes them."""
        ...


PlatformFactory = Callable[[BotSettings], Platform]


def run(
    settings: BotsSettings, make_platform: PlatformFactory, make_engine: EngineFactory, commands: Sequence[Command]
) -> bool:
    """Run the bots until SIGTERM or SIGINT. False: the platforms have refused all of them. Raises StartError."""
    with locked_folder(settings.data_dir):
        return asyncio.run(_run(settings, make_platform, make_engine, commands))


async def _run(
    settings: BotsSettings, make_platform: PlatformFactory, make_engine: EngineFactory, commands: Sequence[Command]
) -> bool:
    stop = asyncio.Event()
    clock = SystemClock()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        database = await Database.open(settings.data_dir / NAME)
        stack.push_async_callback(database.aclose)
        await database.run(partial(allow_in, allowed={bot.name: bot.people for bot in settings.bots}))
        mesh = _open_mesh(settings)
        stack.push_async_callback(closed, "the client of the host", mesh.aclose)
        bots = [bot for one in settings.bots if (bot := _make_bot(one, make_platform)) is not None]
        for bot in bots:
            stack.push_async_callback(closed, f"the platform of {bot.name}", bot.platform.aclose)
        notify = [url.get_secret_value() for url in settings.notices]
        engine = make_engine(bots, database, mesh, clock, notify=notify)
        chats = [Chats(bot, database, engine, clock) for bot in bots]
        for one in chats:
            stack.push_async_callback(closed, "the chats of a bot", one.aclose)
        await stack.enter_async_context(running(_background(bots, database, engine, mesh, clock)))
        receivers = [_receive(bot, database, one, commands, clock) for bot, one in zip(bots, chats, strict=True)]
        tasks = await stack.enter_async_context(running(receivers))
        return await _stopped(stop, tasks)


def _open_mesh(settings: BotsSettings) -> Mesh:
    from agent_client import Mesh

    return Mesh(settings.mesh_url, settings.mesh_token.get_secret_value(), max_answer=MAX_ANSWER_BYTES)


def _make_bot(settings: BotSettings, make_platform: PlatformFactory) -> Bot | None:
    try:
        return Bot(settings.name, make_platform(settings), settings.workspaces, settings.approvers)
    except PlatformError as error:
        log.error("bot ended: its platform cannot be used", bot=settings.name, reason=str(error))
        return None


def _background(
    bots: Sequence[Bot], database: Database, engine: Engine, mesh: Mesh, clock: Clock
) -> list[Coroutine[None, None, None]]:
    names = {bot.name for bot in bots}
    return [
        check_host_token(mesh, dict.fromkeys(name for bot in bots for name in bot.workspaces)),
        restarted("conversations", engine.run),
        restarted("announcing pairings", partial(announce_pairings, names, database, engine)),
        restarted("pruning", partial(_prune, database, clock)),
    ]


async def _receive(bot: Bot, database: Database, chats: Chats, commands: Sequence[Command], clock: Clock) -> None:
    await chats.start()
    intake = Intake(bot, database, clock, wake=chats.wake, refuse=chats.refuse)
    await receive_updates(bot, database, intake.accept, commands)


async def _prune(database: Database, clock: Clock) -> None:
    while True:
        await database.run(partial(prune_in, now=clock.now_ms()))
        await asyncio.sleep(PRUNE_SECONDS)


async def _stopped(stop: asyncio.Event, receivers: Sequence[asyncio.Task[None]]) -> bool:
    """Wait for a signal, or for the end of all bots. Return whether it was a signal."""
    async with running([_set_after(stop, receivers)]):
        await stop.wait()
    return any(not receiver.done() for receiver in receivers)


async def _set_after(stop: asyncio.Event, receivers: Sequence[asyncio.Task[None]]) -> None:
    for receiver in receivers:
        await asyncio.wait([receiver])
    stop.set()
