"""The inbox against a model of it, over crashes: in order, once, and never lost."""

from __future__ import annotations

import itertools
import os
import sqlite3
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent_common.errors import StartError
from frontends.people import allow_in
from frontends.platform import Chat, IncomingFile, Quote, Sender, Update
from frontends.store import (
    Database,
    add_in,
    count_waiting_in,
    count_waiting_of_strangers_in,
    drop_of_sender_in,
    finish_in,
    first_waiting_in,
    is_known_in,
    last_messages_in,
    locked_folder,
    moves_in,
    note_move_in,
    opened,
    prune_in,
    remember_chat_in,
    transaction,
    waiting_chats_in,
)
from frontends.store.database import connect
from frontends.store.inbox import KEPT_OF_CHAT
from frontends.store.moves import MOST_UNKNOWN
from frontends.store.schema import MIGRATIONS

CHATS, SENDERS = ("1", "2"), ("telegram:7", "telegram:8")
DAY_MS = 24 * 3600 * 1000


def message(id: int, chat: str = "1", order: int = 0, text: str = "hello") -> Update:
    return Update(str(id), "message", Chat(chat, True), Sender("7", "Ann"), f"m{id}", order, text)


class Inbox(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "bots.db"
        self.connection = connect(self.path)
        self.waiting: dict[int, tuple[str, int, int, str]] = {}
        """Chat, order, arrival and sender by update."""
        self.finished: set[int] = set()
        self.arrivals = itertools.count()

    def teardown(self) -> None:
        self.connection.close()
        self.folder.cleanup()

    @rule(id=st.integers(0, 12), chat=st.sampled_from(CHATS), order=st.integers(0, 3), sender=st.sampled_from(SENDERS))
    def deliver(self, id: int, chat: str, order: int, sender: str) -> None:
        with transaction(self.connection):
            assert is_known_in(self.connection, "a", str(id)) == (id in self.waiting or id in self.finished)
            add_in(self.connection, "a", message(id, chat, order), sender=sender, stranger=False, now=1)
        if id not in self.waiting and id not in self.finished:
            self.waiting[id] = chat, order, next(self.arrivals), sender

    @rule(chat=st.sampled_from(CHATS), commits=st.booleans())
    def handle(self, chat: str, commits: bool) -> None:
        first = first_waiting_in(self.connection, "a", chat)
        if first is None:
            return
        self.connection.execute("BEGIN IMMEDIATE")
        finish_in(self.connection, "a", first.update.id, now=2)
        if not commits:
            self.crash()
            return
        self.connection.execute("COMMIT")
        self.end(int(first.update.id))

    @rule(sender=st.sampled_from(SENDERS))
    def drop(self, sender: str) -> None:
        with transaction(self.connection):
            count = drop_of_sender_in(self.connection, sender, now=3)
        dropped = [id for id, (_, _, _, other) in self.waiting.items() if other == sender]
        assert count == len(dropped)
        for id in dropped:
            self.end(id)

    @rule()
    def crash(self) -> None:
        self.connection.close()
        self.connection = connect(self.path)

    def end(self, id: int) -> None:
        del self.waiting[id]
        self.finished.add(id)

    @invariant()
    def the_first_of_each_chat_is_that_of_the_model(self) -> None:
        for chat in CHATS:
            expected = sorted((order, at, id) for id, (where, order, at, _) in self.waiting.items() if where == chat)
            first = first_waiting_in(self.connection, "a", chat)
            assert (first and int(first.update.id)) == (expected[0][2] if expected else None)

    @invariant()
    def what_waits_is_counted(self) -> None:
        chats = {chat for chat, _, _, _ in self.waiting.values()}
        assert set(waiting_chats_in(self.connection, "a")) == chats
        for sender in SENDERS:
            assert count_waiting_in(self.connection, "a", sender) == sum(
                other == sender for _, _, _, other in self.waiting.values()
            )
        assert first_waiting_in(self.connection, "b", "1") is None


TestInbox = Inbox.TestCase
# An example is a database with its changes, a fifth of a second: eight in the profile `dev`, 66 in `ci`.
TestInbox.settings = settings(max_examples=settings().max_examples // 3)


TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
UPDATES = st.builds(
    Update,
    id=st.just("9"),
    kind=st.sampled_from(["message", "edit", "button"]),
    chat=st.builds(Chat, id=st.just("-5/3"), private=st.booleans(), title=TEXT),
    sender=st.builds(Sender, id=st.just("7"), name=TEXT),
    message_id=st.just("3"),
    order=st.integers(0, 1 << 62),
    text=TEXT,
    addressed=st.booleans(),
    reply_to=st.none() | st.just("2"),
    files=st.lists(st.builds(IncomingFile, TEXT, TEXT, TEXT, st.none() | st.integers(0, 1 << 40)), max_size=2),
    interaction=st.none() | TEXT,
)


def replaced(value: Any) -> Any:
    """The value with a question mark for each character that no encoding has."""
    match value:
        case str():
            return "".join("?" if "\ud800" <= one <= "\udfff" else one for one in value)
        case dict():
            return {key: replaced(one) for key, one in value.items()}
        case list():
            return [replaced(one) for one in value]
        case _:
            return value


@given(UPDATES)
def test_an_update_comes_back_as_it_was_but_for_halves_of_surrogate_pairs(update: Update) -> None:
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder) / "bots.db") as connection:
        add_in(connection, "a", update, sender="telegram:7", stranger=True, now=1)
        found = first_waiting_in(connection, "a", "-5/3")
        assert count_waiting_of_strangers_in(connection, "a") == 1
    assert found is not None
    assert asdict(found.update) == replaced(asdict(update))
    assert (found.sender, found.delay_notified) == ("telegram:7", False)


def test_what_was_stored_without_a_quote_is_read(tmp_path: Path) -> None:
    quoting = replace(message(1), quote=Quote("yes", Sender("", "Zoe"), part=True))
    with opened(tmp_path / "bots.db") as connection:
        add_in(connection, "a", quoting, sender="telegram:7", stranger=False, now=1)
        stored = first_waiting_in(connection, "a", "1")
        connection.execute("UPDATE updates SET body = json_remove(body, '$.quote')")
        older = first_waiting_in(connection, "a", "1")
    assert stored is not None
    assert older is not None
    assert (stored.update.quote, older.update.quote) == (quoting.quote, None)
    assert replace(stored.update, quote=None) == older.update


def test_the_text_of_a_finished_update_is_not_kept(tmp_path: Path) -> None:
    with opened(tmp_path / "bots.db") as connection:
        add_in(connection, "a", message(1, text="private"), sender="telegram:7", stranger=False, now=1)
        finish_in(connection, "a", "1", now=2)
        assert connection.execute("SELECT body FROM updates").fetchall() == [(None,)]


def test_the_last_message_of_a_chat_is_the_latest_and_no_edit_button_or_stranger(tmp_path: Path) -> None:
    with opened(tmp_path / "bots.db") as connection:
        for id, order in ((1, 10), (2, 30), (3, 20)):
            add_in(connection, "a", message(id, order=order), sender="telegram:7", stranger=False, now=1)
        press = Update("4", "button", Chat("1", True), Sender("7", "Ann"), "m9", 99)
        add_in(connection, "a", press, sender="telegram:7", stranger=False, now=1)
        add_in(connection, "a", message(5, chat="2"), sender="telegram:8", stranger=True, now=1)
        finish_in(connection, "a", "2", now=2)
        assert last_messages_in(connection, "a") == {"1": "m2"}
        allow_in(connection, {"a": ["telegram:8"]})
        assert last_messages_in(connection, "a") == {"1": "m2", "2": "m5"}, "it is one of a person now"


def test_the_last_messages_of_people_stay_known_however_long_a_chat_is_quiet(tmp_path: Path) -> None:
    with opened(tmp_path / "bots.db") as connection:
        allow_in(connection, {"a": ["telegram:8"]})
        chats = {"1": ("telegram:7", False), "2": ("telegram:8", True), "3": ("telegram:9", True)}
        for at, (chat, (sender, stranger)) in enumerate(chats.items()):
            for id in range(100 * at, 100 * at + KEPT_OF_CHAT + 5):
                update = message(id, chat, order=id)
                add_in(connection, "a", update, sender=sender, stranger=stranger, now=1)
                finish_in(connection, "a", str(id), now=1)
        assert prune_in(connection, now=60 * DAY_MS, most=0) == 5 + 5 + KEPT_OF_CHAT + 5
        assert last_messages_in(connection, "a") == {"1": f"m{KEPT_OF_CHAT + 4}", "2": f"m{100 + KEPT_OF_CHAT + 4}"}
        assert prune_in(connection, now=60 * DAY_MS, most=0) == 0


def test_ids_are_known_for_a_month_and_never_more_than_the_most(tmp_path: Path) -> None:
    with opened(tmp_path / "bots.db") as connection:
        for id in range(10):
            add_in(connection, "a", message(id), sender="telegram:9", stranger=True, now=1)
            if id != 5:
                finish_in(connection, "a", str(id), now=id * DAY_MS)
        assert prune_in(connection, now=31 * DAY_MS + 1) == 2  # those of the first two days
        assert prune_in(connection, now=31 * DAY_MS + 1, most=3) == 4
        left = {id for (id,) in connection.execute("SELECT id FROM updates")}
        assert left == {"5", "7", "8", "9"}  # what waits stays


def test_the_files_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "bots.db"
    path.parent.mkdir(0o755)
    path.touch(0o644)
    with opened(path) as connection, transaction(connection):
        add_in(connection, "a", message(1), sender="telegram:7", stranger=False, now=1)
        modes = {one.name: oct(one.stat().st_mode & 0o777) for one in path.parent.iterdir()}
    assert set(modes.values()) == {"0o600"}, modes
    assert "bots.db-wal" in modes


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bots.db"
    with opened(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StartError, match=r"has version 99, and this program knows \d+ at most"):
        connect(path)


def test_a_file_that_is_no_database_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "bots.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(StartError, match=r"bots\.db: cannot be used as the bots' database: file is not a database"):
        connect(path)


def test_migrations_run_once_each_and_wholly_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    first = ("CREATE TABLE one (a INTEGER) STRICT",)
    second = ("ALTER TABLE one ADD COLUMN b INTEGER", "CREATE TABLE two (a INTEGER) STRICT")
    connect(path, [first]).close()
    with pytest.raises(StartError, match="no such table: none"):
        connect(path, [first, (second[0], "INSERT INTO none VALUES (1)")])
    connect(path, [first, second]).close()
    again = connect(path, [first, second])
    assert again.execute("PRAGMA user_version").fetchone() == (2,)
    again.close()


def test_moves_are_kept_of_chats_with_a_conversation_and_bounded_of_others(tmp_path: Path) -> None:
    path = tmp_path / "bots.db"
    connect(path, MIGRATIONS[:4]).close()
    with opened(path) as connection, transaction(connection):
        remember_chat_in(connection, "a", Chat("-1", private=False))
        for number in range(1, MOST_UNKNOWN + 12):
            note_move_in(connection, "a", f"-{number}", f"-100{number}")
            note_move_in(connection, "a", f"-{number}", f"-100{number}")
        moves = moves_in(connection, "a")
        assert len(moves) == MOST_UNKNOWN + 1
        assert moves["-1001"] == "-1"
        assert moves_in(connection, "b") == {}


async def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "bots.db")

    def fail(connection: sqlite3.Connection) -> None:
        add_in(connection, "a", message(1), sender="telegram:7", stranger=False, now=1)
        raise LookupError

    try:
        with pytest.raises(LookupError):
            await database.run(fail)
        assert await database.run(lambda connection: first_waiting_in(connection, "a", "1")) is None
    finally:
        await database.aclose()


async def test_a_change_by_another_process_is_seen(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "bots.db")
    try:
        before = await database.foreign_version()
        await database.run(lambda connection: prune_in(connection, now=1))
        assert await database.foreign_version() == before
        with opened(tmp_path / "bots.db") as other:
            add_in(other, "a", message(1), sender="telegram:7", stranger=False, now=1)
        assert await database.foreign_version() != before
    finally:
        await database.aclose()


def test_a_folder_is_used_by_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with locked_folder(folder):
        match = f"another `agent bots` uses this folder, process {os.getpid()}"
        with pytest.raises(StartError, match=match), locked_folder(folder):
            pass
    with locked_folder(folder):
        assert (folder.stat().st_mode & 0o777) == 0o700
