"""`python -m tests.e2e.frontends.program FOLDER`: the process of the bots, on a platform that is two files.

`updates` in the folder has a line for each update; those after the number in `taken` are delivered, in pieces, again
after a crash that comes before that is written. `sent` gets a line for each message. Handling an update writes a row.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from agent_client import Mesh
from agent_common.clock import Clock
from frontends.bots import configure_logs, run
from frontends.conversation import Bot
from frontends.people import Person
from frontends.platform import Accept, Chat, Command, Piece, TokenRejected, Update
from frontends.settings import BotSettings, load_settings
from frontends.store import Database, finish_in
from tests.integration.frontends.fakes import FakePlatform, message

POLL_SECONDS = 0.02
AT_ONCE = 3
"""Updates in one piece."""


class FilePlatform(FakePlatform):
    def __init__(self, folder: Path, settings: BotSettings) -> None:
        super().__init__()
        self._folder, self._token = folder, settings.token.get_secret_value()

    async def open(self, commands: Sequence[Command]) -> None:
        logging.getLogger("httpx").warning("POST https://platform/bot%s/getMe", self._token)
        if (self._folder / "refused").exists():
            raise TokenRejected(f"the token {self._token} is unknown")

    async def receive(self, accept: Accept, since: Mapping[str, str], moved: Mapping[str, str] | None = None) -> None:
        updates, taken = self._folder / "updates", self._folder / "taken"
        while True:
            lines = updates.read_text().splitlines() if updates.exists() else []
            begin = int(taken.read_text()) if taken.exists() else 0
            for at in range(begin, len(lines), AT_ONCE):
                piece = [parsed(line) for line in lines[at : at + AT_ONCE]]
                await accept(piece)
                temporary = taken.with_suffix(".new")
                temporary.write_text(str(at + len(piece)))
                temporary.replace(taken)
            await asyncio.sleep(POLL_SECONDS)

    async def send(self, chat: Chat, piece: Piece, *, key: str, reply_to: str | None = None) -> str:
        with (self._folder / "sent").open("a") as file:
            file.write(json.dumps([chat.id, piece.markdown]) + "\n")
        return "1"


def parsed(line: str) -> Update:
    id, sender = json.loads(line)
    return message(id, sender)


class RowEngine:
    """Writes a row for each update, in the transaction that ends it, and says things at once."""

    def __init__(
        self, bots: Sequence[Bot], database: Database, mesh: Mesh, clock: Clock, *, notify: Sequence[str]
    ) -> None:
        self._database = database
        self._platforms = {bot.name: bot.platform for bot in bots}

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def handle(self, bot: str, update: Update, person: Person) -> None:
        await self._database.run(partial(self._write, bot, update, person))

    async def tell(self, bot: str, chat: Chat, text: str, *, key: str) -> None:
        await self._platforms[bot].send(chat, Piece(text), key=key)

    async def end_removed(self) -> None: ...

    def _write(self, bot: str, update: Update, person: Person, connection: sqlite3.Connection) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS effects (number INTEGER PRIMARY KEY, id TEXT, person TEXT)")
        connection.execute("INSERT INTO effects (id, person) VALUES (?, ?)", (update.id, person.principal))
        finish_in(connection, bot, update.id, now=1)


def main() -> int:
    folder, settings = Path(sys.argv[1]), load_settings()
    configure_logs(settings)
    return 0 if run(settings, partial(FilePlatform, folder), RowEngine, []) else 1


if __name__ == "__main__":
    sys.exit(main())
