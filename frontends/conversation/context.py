"""What the parts of a conversation share: one bot with its outbox, its followers, its agents, and the database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from sqlite3 import Connection
from typing import TypeVar

from agent_client import Agent, ClientError, Mesh
from agent_common.clock import Clock
from agent_common.telemetry import logger

from ..people import Person
from ..platform import Chat, Piece, PlatformError, Update
from ..store import Database, StoredChat, add_post_in, finish_in
from .bot import Bot, Later
from .outbox import Outbox
from .replies import Followers, trouble_of

log = logger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """One bot, with everything that its conversations need."""

    bot: Bot
    outbox: Outbox
    followers: Followers
    database: Database
    mesh: Mesh
    clock: Clock

    def principal(self, chat: Chat, person: Person) -> str:
        """Return for whom the agent works in a chat: for the person alone, or for all people of a group."""
        return person.principal if chat.private else f"{self.bot.platform.name}:{chat.id}"

    def workspace(self, chat: StoredChat) -> str:
        """Return the workspace of a chat: the one that was chosen, while the bot may use it."""
        return self.bot.workspace(chat.workspace)

    def agent(self, chat: StoredChat, person: Person) -> Agent:
        """Return the agent of a chat."""
        return self.mesh.agent(self.workspace(chat), self.principal(chat.chat, person))

    async def finish(self, update: Update, work: Callable[[Connection], T], *posts: Piece | str) -> T:
        """End an update, with all that it causes, in one transaction. `posts` are messages for its chat."""
        now = self.clock.now_ms()

        def unit(connection: Connection) -> T:
            done = work(connection)
            for number, post in enumerate(posts):
                pieces = [*map(Piece, self.bot.platform.split(post))] if isinstance(post, str) else [post]
                key = f"{key_of(self.bot.name, update.id)}-p{number}"
                add_post_in(connection, self.bot.name, update.chat.id, key, pieces, reply_to=_reply_to(update), now=now)
            finish_in(connection, self.bot.name, update.id, now=now)
            return done

        done = await self.database.run(unit)
        self.outbox.wake(update.chat.id)
        return done

    async def tell(self, update: Update, *posts: Piece | str) -> None:
        """End an update with messages alone."""
        await self.finish(update, lambda _: None, *posts)

    async def acknowledge(self, update: Update, text: str = "") -> None:
        """Inform the person who has pressed a button, who alone sees the text."""
        if update.interaction is None:
            return
        try:
            await self.bot.platform.acknowledge(update.interaction, text)
        except PlatformError as error:
            log.info("a press was not acknowledged", bot=self.bot.name, error=str(error))


def _reply_to(update: Update) -> str | None:
    """In a group an answer names the message that it answers."""
    return update.message_id if update.kind == "message" and not update.chat.private else None


def key_of(bot: str, *ids: str) -> str:
    """Return the key of what an update causes: short, and the same in each process."""
    return sha256("\0".join((bot, *ids)).encode(errors="surrogatepass")).hexdigest()[:16]


def words_or_later(error: ClientError) -> str:
    """Return why the agent refuses something. Raises Later if it may work in a while."""
    trouble = trouble_of(error)
    if trouble.passing:
        raise Later(getattr(error, "retry_after", None), trouble.words) from error
    return trouble.words
