"""What the attacks on bots are made in: a live process with three bots, both platforms, a host with an agent."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from agent_client.sync import SyncMesh
from agent_common.protocol import SessionRule
from agent_testing import LiveProcess, Say, ScriptedProvider, Step
from agent_testing.discord import Bot, FakeDiscord
from agent_testing.discord import Message as DiscordMessage
from agent_testing.discord import User as DiscordUser
from agent_testing.telegram import Chat, FakeTelegram, Message, User
from tests.integration.host.live import OPERATOR, Host, catalog

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
WORKSPACE = "ada"
PATIENCE = 60.0
TELEGRAM_PEOPLE, DISCORD_PEOPLE = 300, 60
HOME, DEN, ATTIC = "home", "den", "attic"
"""The bots: one of Telegram, two of Discord."""
PROVIDER_KEY = "sk-of-the-upstream-alone"
NOTICE = "jsons://user:secret-of-notices@127.0.0.1:9/"
PROGRAM = [sys.executable, "-m", "frontends"]


@dataclass
class World:
    """Everything that is alive. `people` and `members` have been paired by the settings; each is given out once."""

    folder: Path
    telegram: FakeTelegram
    discord: FakeDiscord
    attic: Bot
    provider: ScriptedProvider
    host: Host
    token: str
    environment: dict[str, str]
    people: Iterator[User]
    members: Iterator[DiscordUser]
    process: LiveProcess = field(init=False)

    @property
    def database(self) -> Path:
        return self.folder / "bots" / "bots.db"

    @property
    def secrets(self) -> Sequence[str]:
        """What may be shown nowhere."""
        platforms = (self.telegram.token, self.discord.bot.token, self.attic.token)
        return (*platforms, self.token, OPERATOR, PROVIDER_KEY, "secret-of-notices")

    @property
    def log(self) -> str:
        """All lines of the bots so far."""
        return self.process.output()

    # ---------------------------------------------------------------- people

    def person(self, name: str | None = None) -> User:
        """A person of Telegram who is paired; `name` is how they call themselves."""
        return _named(next(self.people), name)

    def member(self, name: str | None = None) -> DiscordUser:
        """A person of Discord who is paired with the first of its bots."""
        return _named(next(self.members), name)

    def stranger(self, name: str = "Stranger") -> User:
        return self.telegram.create_user(name)

    # ---------------------------------------------------------------- conversations

    def model(self, *steps: Step, otherwise: str = "well said") -> None:
        """Let the model answer by these steps, and forget what it was asked before."""
        self.provider.script.replace(steps, otherwise=Say(otherwise))
        self.provider.clear()

    def code(self) -> str:
        """The code of the approval that was asked for last."""
        with SyncMesh(self.host.url, OPERATOR) as mesh:
            waiting = [one for one in mesh.pending().requests if one.kind == "approval"]
        found = max(waiting, key=lambda one: one.since).code
        assert found is not None
        return found

    def asked(self, text: str) -> list[str]:
        """What the model was asked so far, of the requests in which the text occurs."""
        return [one.last_user_text for one in self.provider.requests if text in one.last_user_text]

    def reply(self, chat: Chat, part: str = "", *, after: int = 0) -> Message:
        """Wait for a message of the bot with this part, later than the message `after`."""

        def found() -> Message | None:
            return next((one for one in chat.replies if one.id > after and part in one.text), None)

        return self.shown(found, part, lambda: [one.text for one in chat.replies])

    def discord_reply(self, channel: object, part: str = "", *, after: int = 0) -> DiscordMessage:
        def written() -> list[DiscordMessage]:
            return [one for one in channel.messages if one.author.is_bot]  # type: ignore[attr-defined]

        def found() -> DiscordMessage | None:
            return next((one for one in written() if one.id > after and part in one.content), None)

        return self.shown(found, part, lambda: [one.content for one in written()])

    def shown(self, found: Callable[[], T | None], part: str, instead: Callable[[], object]) -> T:
        deadline = time.monotonic() + PATIENCE
        while (one := found()) is None:
            assert time.monotonic() < deadline, f"{part!r} is not shown, but {instead()!r}\n{self.log[-3000:]}"
            time.sleep(0.02)
        return one

    def settle(self, person: User) -> None:
        """Wait until the bot has handled all that this person did, which is all in one chat."""
        asked = person.write(person.chat, "/cost")
        self.reply(person.chat, "", after=asked.id)

    def ask_before_bash(self, user: str, session: str) -> None:
        """Have a person decide what the shell runs in a session of the agent."""
        with SyncMesh(self.host.url, OPERATOR) as mesh:
            rule = SessionRule(permission="bash", pattern="*", action="ask")
            mesh.agent(WORKSPACE, user).sessions.permit(session, [rule])

    # ---------------------------------------------------------------- the operator

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `agent bots ...`."""
        return subprocess.run(
            [*PROGRAM, *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def rows(self, query: str, *values: object) -> list[tuple[object, ...]]:
        connection = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()

    def write(self, statement: str, *values: object) -> None:
        """Change the database behind the back of the bots, as time would."""
        connection = sqlite3.connect(self.database, timeout=60)
        with connection:
            connection.execute(statement, values)
        connection.close()


def _named(person: T, name: str | None) -> T:
    if name is not None:
        person.name = name  # type: ignore[attr-defined]
    return person


@contextmanager
def living(folder: Path, names: Sequence[str] = (HOME, DEN, ATTIC)) -> Generator[World]:
    """Start everything with the bots of these names, and end it."""
    with ExitStack() as stack:
        telegram = stack.enter_context(FakeTelegram())
        discord = stack.enter_context(FakeDiscord(token="token-of-den-x1"))
        provider = stack.enter_context(ScriptedProvider())
        settings = {"MESH_MODELS": catalog(folder, provider), "UPSTREAM_KEY": PROVIDER_KEY, "MESH_STOP_GRACE": 2}
        host = stack.enter_context(Host(folder / "mesh", **settings))
        attic = discord.add_bot("attic", "token-of-attic-x2")
        people = [telegram.create_user(f"Person {number}") for number in range(TELEGRAM_PEOPLE)]
        members = [discord.user(f"member{number}") for number in range(DISCORD_PEOPLE)]
        with SyncMesh(host.url, OPERATOR) as mesh:
            token = mesh.tokens.create(["telegram:*", "discord:*"], [WORKSPACE]).token
            mesh.workspaces.create(WORKSPACE)
            assert mesh.workspaces.start(WORKSPACE).state == "running"
        config = folder / "bots.yaml"
        bots = [
            _bot(HOME, "telegram", telegram.token, telegram.url, [f"telegram:{one.id}" for one in people]),
            _bot(DEN, "discord", discord.bot.token, discord.url, [f"discord:{one.id}" for one in members]),
            _bot(ATTIC, "discord", attic.token, discord.url, []),
        ]
        started = [bot for bot in bots if bot["name"] in names]
        given = {"mesh": {"url": host.url, "token": token}, "bots": started, "notices": [NOTICE]}
        config.write_text(json.dumps(given))
        environment = {"AGENT_BOTS": str(config), "BOTS_DATA_DIR": str(folder / "bots"), "HOME": str(folder)}
        world = World(folder, telegram, discord, attic, provider, host, token, environment, iter(people), iter(members))
        world.process = stack.enter_context(LiveProcess(PROGRAM, environment, cwd=ROOT))
        for name in names:
            world.process.wait_for_output(f"bot connected.*{name}", PATIENCE)
        # The line comes before the gateway, and what is written in a new channel before it reaches nobody.
        for bot in [bot for name, bot in ((DEN, discord.bot), (ATTIC, attic)) if name in names]:
            discord.wait_for_session(bot, PATIENCE)
        world.model()
        yield world


def _bot(name: str, platform: str, token: str, url: str, people: Sequence[str]) -> dict[str, object]:
    given = {"name": name, "platform": platform, "token": token, "base_url": url, "people": people}
    return {**given, "workspaces": [WORKSPACE]}
