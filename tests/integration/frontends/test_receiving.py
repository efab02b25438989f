"""A bot stays connected until its platform refuses it, and people learn that they are paired."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from agent_common.backoff import Backoff
from frontends.bots.pairings import announce_pairings
from frontends.bots.receiving import receive_updates
from frontends.bots.tasks import running
from frontends.conversation import Bot
from frontends.people import Person, allow_in, code_in, confirm
from frontends.platform import AnotherCopy, Chat, PlatformError, TemporarilyUnavailable, TokenRejected, Update
from frontends.store import Database, add_in, note_move_in, opened

from .fakes import FakePlatform, message, until

SOON = Backoff(0.01, 0.02)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "bots.db")
    yield database
    await database.aclose()


async def nothing(updates: Sequence[Update]) -> None:
    pass


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (TokenRejected("no"), "bot ended: the platform does not accept its token"),
        (AnotherCopy("no"), "bot ended: another process receives its updates; stop that one"),
    ],
)
@pytest.mark.parametrize("at", ["opening", "receiving"])
async def test_a_bot_that_its_platform_refuses_ends_by_name(
    database: Database, caplog: pytest.LogCaptureFixture, error: Exception, line: str, at: str
) -> None:
    platform = FakePlatform()
    getattr(platform, at).extend([TemporarilyUnavailable("away"), error])
    async with asyncio.timeout(60):
        await receive_updates(Bot("home", platform, ["a"]), database, nothing, [], backoff=SOON)
    assert (line in caplog.text, platform.opened) == (True, 2)


async def test_what_its_operator_can_mend_is_said_without_a_trace(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    platform = FakePlatform(opening=[PlatformError("switch on the intent"), TokenRejected("no")])
    async with asyncio.timeout(60):
        await receive_updates(Bot("home", platform, ["a"]), database, nothing, [], backoff=SOON)
    (refused,) = [record for record in caplog.records if "the platform refuses the bot" in record.getMessage()]
    assert not refused.exc_info
    assert vars(refused)["facts"] == {"bot": "home", "reason": "switch on the intent"}


async def test_any_other_fault_is_survived(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    await database.run(
        lambda connection: add_in(connection, "home", message(7), sender="telegram:1", stranger=False, now=1)
    )
    await database.run(lambda connection: note_move_in(connection, "home", "-1", "-1001"))
    platform = FakePlatform(
        opening=[TemporarilyUnavailable("away", retry_after=0.01), LookupError("a bug")], receiving=[OSError("cut")]
    )
    async with running([receive_updates(Bot("home", platform, ["a"]), database, nothing, [], backoff=SOON)]):
        await until(lambda: platform.opened == 4 and platform.since)
    assert (platform.since, platform.moved) == ({"1": "m7"}, {"-1001": "-1"})
    assert caplog.text.count("receiving failed") == 2


async def test_what_runs_of_removed_people_is_ended_whenever_another_process_may_have_removed_some(
    database: Database, tmp_path: Path
) -> None:
    teller = Teller()
    async with running([announce_pairings({"home"}, database, teller)]):
        await until(lambda: teller.looked == 1)
        with opened(tmp_path / "bots.db") as other:
            allow_in(other, {"home": ["telegram:1"]})
        await until(lambda: teller.looked > 1)


@pytest.mark.slow
async def test_people_learn_that_another_process_has_paired_them(database: Database, tmp_path: Path) -> None:
    teller = Teller()
    async with running([announce_pairings({"home"}, database, teller)]):
        with opened(tmp_path / "bots.db") as other:
            pair(other, "home", 1)
            pair(other, "gone", 1)
            await until(lambda: teller.told)
            pair(other, "home", 2, "telegram:1")
            await until(lambda: len(teller.told) == 2)
            await until(lambda: other.execute("SELECT COUNT(*) FROM pairings").fetchone() == (0,))
            pair(other, "home", 1, now=5)
            await until(lambda: len(teller.told) == 3)
    (_, first, one), (_, second, _), (_, again, another) = teller.told
    assert first == again == "You are paired with this bot now. Write to it, and an agent answers."
    assert "the same person as telegram:1" in second
    assert one != another, "the key of another welcome is another one"


class Teller:
    """Keeps what people are told, each with its chat and its key."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, str]] = []
        self.looked = 0

    async def handle(self, bot: str, update: Update, person: Person) -> None: ...

    async def end_removed(self) -> None:
        self.looked += 1

    async def tell(self, bot: str, chat: Chat, text: str, *, key: str) -> None:
        self.told.append((chat.id, text, key))


def pair(connection: sqlite3.Connection, bot: str, id: int, person: str | None = None, now: int = 1) -> None:
    code = code_in(connection, bot, f"telegram:{id}", chat=str(id), known=None, now=now)
    assert code is not None
    confirm(connection, code, person, now=now)
