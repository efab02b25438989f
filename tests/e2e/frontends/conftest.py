"""A host with one agent, and the conversations of a bot on a platform in memory."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from agent_client import Mesh
from agent_client.sync import SyncMesh
from agent_common.clock import SystemClock
from agent_testing import Say, ScriptedProvider
from frontends.conversation import Bot, Conversations
from frontends.conversation.dispatch import Dispatch
from frontends.people import Person
from frontends.platform import Chat, Update
from frontends.store import NAME, Database, add_in
from tests.bot_platform import CHAT, MemoryPlatform, People, Shown, let_in
from tests.integration.host.live import OPERATOR, Host, catalog

WORKSPACE = "ada"
PATIENCE = 60.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class World:
    host: Host
    provider: ScriptedProvider


@pytest.fixture(scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("mesh")
    with (
        ScriptedProvider() as provider,
        Host(folder / "data", MESH_MODELS=catalog(folder, provider), UPSTREAM_KEY="sk-1", MESH_STOP_GRACE=2) as host,
        SyncMesh(host.url, OPERATOR) as mesh,
    ):
        mesh.workspaces.create(WORKSPACE)
        assert mesh.workspaces.start(WORKSPACE).state == "running"
        yield World(host, provider)


@pytest.fixture
def world(_world: World) -> Iterator[World]:
    _world.provider.script.replace(None, otherwise=Say("well said"))
    _world.provider.clear()
    yield _world
    _world.provider.release()


@dataclass
class Bots:
    """One bot over all its lives: its database and its platform stay."""

    world: World
    path: Path
    platform: MemoryPlatform = field(default_factory=MemoryPlatform)
    people: People = field(default_factory=People)
    approvers: frozenset[str] = frozenset()
    name: str = field(default_factory=lambda: f"bot{next(_numbers)}")

    @property
    def session(self) -> str:
        return f"{self.name}-{CHAT.id}-1"

    async def start(self) -> None:
        self.database = await Database.open(self.path)
        self.mesh = Mesh(self.world.host.url, OPERATOR)
        bot = Bot(self.name, self.platform, [WORKSPACE], self.approvers)
        self.conversations = Conversations([bot], self.database, self.mesh)
        self.task = asyncio.create_task(self.conversations.run())

    async def kill(self) -> None:
        """End it at once; what it did not store is lost."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        await self.database.aclose()
        await self.mesh.aclose()

    async def take(self, update: Update) -> Update:
        """An update comes, and is handled."""
        await self.store(update)
        await self.handle(update)
        assert await self.has_ended(update)
        return update

    async def store(self, update: Update) -> None:
        sender = f"telegram:{update.sender.id}"
        await self.database.run(lambda c: let_in(c, self.name, sender))
        await self.database.run(
            lambda c: add_in(c, self.name, update, sender=sender, stranger=False, now=SystemClock().now_ms())
        )

    async def handle(self, update: Update, database: Database | None = None) -> None:
        """Handle an update, with another database if one is given."""
        sender = f"telegram:{update.sender.id}"
        context, _ = self.conversations._bots[self.name]
        if database is not None:
            context = replace(context, database=database)
        await Dispatch(context).handle(update, Person(sender, frozenset({sender})))

    async def has_ended(self, update: Update) -> bool:
        query = "SELECT finished_at FROM updates WHERE bot = ? AND id = ?"
        found = await self.database.run(lambda c: c.execute(query, (self.name, update.id)).fetchone())
        return found[0] is not None

    async def says(self, text: str, chat: Chat = CHAT, **more: Any) -> Update:
        return await self.take(self.people.message(text, chat, **more))

    async def until(self, check: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE):
            while not (found := check()):
                assert not self.task.done(), self.task.exception()
                await asyncio.sleep(0.01)
            return found

    async def until_shown(self, *texts: str, chat: Chat = CHAT) -> None:
        try:
            await self.until(lambda: self.platform.shown(chat) == list(texts))
        except TimeoutError:
            assert self.platform.shown(chat) == list(texts)
            raise

    async def until_found(self, part: str, chat: Chat = CHAT) -> Shown:
        def find() -> Shown | None:
            found = [one for one in self.platform.messages.values() if part in one.piece.markdown]
            return found[-1] if found else None

        try:
            return await self.until(find)
        except TimeoutError:
            raise AssertionError(f"{part!r} is not in {self.platform.shown(chat)}") from None


def children_of(pid: int) -> list[int]:
    """The processes that a process has started: of a host, its agents."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def buttons(shown: Shown) -> dict[str, str]:
    """The data of the buttons of a message, by their labels."""
    return {button.label: button.data for row in shown.piece.buttons for button in row}


@pytest.fixture
async def bots(world: World, tmp_path: Path) -> AsyncIterator[Bots]:
    one = Bots(world, tmp_path / NAME)
    await one.start()
    yield one
    await one.kill()
