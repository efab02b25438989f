"""Posts are brought to the platform, each message once, whatever fails and wherever the process dies."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from frontends.conversation.outbox.writer import ChatWriter, Draft
from frontends.platform import Button, Chat, ChatGone, MessageGone, Piece, PlatformError
from frontends.store import (
    Database,
    PostMessage,
    Reply,
    add_post_in,
    add_reply_in,
    change_post_in,
    known_messages_in,
    note_intent_in,
    note_message_in,
    remember_chat_in,
)
from tests.bot_platform import CHAT, Killed, MemoryPlatform, unreachable

BOT = "helper"


async def opened(folder: Path) -> Database:
    database = await Database.open(folder / "bots.db")
    await database.run(lambda c: remember_chat_in(c, BOT, CHAT, "7"))
    return database


async def add(database: Database, key: str, pieces: Sequence[Piece] | None, **more: Any) -> None:
    await database.run(lambda c: add_post_in(c, BOT, CHAT.id, key, pieces, now=1, **more))


def writer(platform: MemoryPlatform, database: Database) -> ChatWriter:
    return ChatWriter(platform, database, BOT, CHAT.id)


async def written(platform: MemoryPlatform, database: Database) -> None:
    async with asyncio.timeout(60):
        await writer(platform, database).run()


async def test_posts_come_in_their_order_and_only_what_changes_is_edited(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(), await opened(tmp_path)
    await add(database, "a", [Piece("one"), Piece("two")])
    await add(database, "b", [Piece("three", [[Button("ok", "x")]])], reply_to="7")
    await written(platform, database)
    assert platform.shown() == ["one", "two", "three"]
    assert [one.reply_to for one in platform.messages.values()] == [None, None, "7"]
    await database.run(lambda c: change_post_in(c, "a", [Piece("one"), Piece("2")]))
    await written(platform, database)
    assert platform.shown() == ["one", "2", "three"]
    assert platform.calls == ["send"] * 3 + ["edit"]
    await database.run(lambda c: change_post_in(c, "a", [Piece("one")]))
    await written(platform, database)
    assert platform.shown() == ["one", "three"]
    await database.aclose()


async def test_a_file_is_sent(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(), await opened(tmp_path)
    await add(database, "f", [Piece("the caption")], file=("a.txt", b"content"))
    await written(platform, database)
    (one,) = platform.messages.values()
    assert (one.file, one.piece.markdown) == (("a.txt", b"content"), "the caption")
    await written(platform, database)
    assert len(platform.messages) == 1
    await database.aclose()


async def test_a_draft_is_edited_as_it_grows_and_typing_is_shown(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(edit_seconds=0.01), await opened(tmp_path)
    await add(database, "a", None)
    one = writer(platform, database)
    one.drafts["a"] = Draft(lambda: [Piece("working")], typing=True)
    task = asyncio.create_task(one.run())
    async with asyncio.timeout(60):
        while platform.shown() != ["working"] or not platform.typing:
            await asyncio.sleep(0.001)
        one.drafts["a"] = Draft(lambda: [Piece("working on it")], typing=True)
        one.wake()
        while platform.shown() != ["working on it"]:
            await asyncio.sleep(0.001)
        await database.run(lambda c: change_post_in(c, "a", [Piece("done")]))
        del one.drafts["a"]
        one.wake()
        await task
    assert platform.shown() == ["done"]
    assert one.idle
    await database.aclose()


async def test_a_turn_that_always_has_news_holds_up_no_other_post(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(edit_seconds=0.001), await opened(tmp_path)
    await add(database, "live", None)
    await add(database, "answer", [Piece("/status")])
    one, numbers = writer(platform, database), itertools.count()
    one.drafts["live"] = Draft(lambda: [Piece(f"word {next(numbers)}")], typing=True)
    task = asyncio.create_task(one.run())
    async with asyncio.timeout(60):
        while "/status" not in platform.shown() or len(platform.calls) < 5:
            await asyncio.sleep(0.001)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert platform.typing == 1
    await database.aclose()


async def test_a_draft_that_cannot_be_drawn_holds_up_no_other_post(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(edit_seconds=0.001), await opened(tmp_path)
    await add(database, "a", None)
    await add(database, "b", None)
    await add(database, "answer", [Piece("/status")])
    one, drawn = writer(platform, database), 0

    def draw() -> list[Piece]:
        nonlocal drawn
        drawn += 1
        raise ValueError("no text")

    one.drafts["a"] = Draft(draw, typing=False)
    one.drafts["b"] = Draft(lambda: [Piece("working")], typing=False)
    task = asyncio.create_task(one.run())
    async with asyncio.timeout(60):
        while set(platform.shown()) != {"/status", "working"}:
            await asyncio.sleep(0.001)
        assert drawn == 1
        await database.run(lambda c: change_post_in(c, "a", [Piece("done")]))
        await database.run(lambda c: change_post_in(c, "b", [Piece("done too")]))
        del one.drafts["b"]
        one.wake()
        await task
    assert set(platform.shown()) == {"/status", "done", "done too"}
    await database.aclose()


async def test_a_lost_message_is_looked_for_before_another_is_sent(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(), await opened(tmp_path)

    def die(_: str) -> None:
        raise Killed

    platform.after = die
    await add(database, "b", [Piece("second")])
    with pytest.raises(Killed):
        await written(platform, database)
    platform.after = lambda _: None
    await add(database, "c", [Piece("third")])
    await database.run(lambda c: c.execute("UPDATE posts SET position = -1 WHERE key = 'c'"))
    await written(platform, database)
    assert platform.calls == ["send", "find", "send"]
    assert platform.shown() == ["second", "third"]
    await database.aclose()


async def test_a_message_that_is_gone_is_sent_again(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(), await opened(tmp_path)
    await add(database, "a", [Piece("one")])
    await written(platform, database)
    platform.messages.clear()
    await database.run(lambda c: change_post_in(c, "a", [Piece("two")]))
    await written(platform, database)
    assert platform.shown() == ["two"]
    await database.aclose()


@pytest.mark.parametrize("error", [ChatGone("blocked"), PlatformError("not this")])
async def test_a_post_that_is_refused_is_given_up(tmp_path: Path, error: PlatformError) -> None:
    platform, database = MemoryPlatform(), await opened(tmp_path)
    failures = [error]

    def fail(_: str) -> None:
        if failures:
            raise failures.pop()

    platform.before = fail
    await add(database, "a", [Piece("one")])
    await written(platform, database)
    await database.run(lambda c: change_post_in(c, "a", [Piece("again")]))
    await add(database, "b", [Piece("the next")])
    await written(platform, database)
    assert platform.shown() == ["the next"]
    await database.aclose()


async def test_a_reply_to_a_message_that_is_gone_replies_to_none(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(), await opened(tmp_path)
    failures = [MessageGone("deleted")]

    def fail(_: str) -> None:
        if failures:
            raise failures.pop()

    platform.before = fail
    await add(database, "a", [Piece("one")], reply_to="7")
    await written(platform, database)
    assert [one.reply_to for one in platform.messages.values()] == [None]
    await database.aclose()


def _raise(fault: str | None, errors: dict[str, BaseException]) -> None:
    if fault in errors:
        raise errors[fault]


FAULTS = st.sampled_from(["killed before", "killed after", "lost before", "lost after", "refused"])


@settings(max_examples=40, deadline=None)
@given(
    faults=st.dictionaries(st.integers(0, 12), FAULTS, max_size=5),
    looks=st.lists(st.integers(1, 4), min_size=1, max_size=4),
)
@example(faults={0: "killed before", 1: "killed after"}, looks=[2])
@example(faults={0: "lost after", 1: "lost before", 2: "killed after"}, looks=[1, 3])
@example(faults={0: "refused", 1: "lost after", 2: "killed before", 3: "killed after"}, looks=[3, 1])
async def test_wherever_it_fails_each_message_is_there_once(
    tmp_path_factory: pytest.TempPathFactory, faults: dict[int, str], looks: list[int]
) -> None:
    platform, database = MemoryPlatform(), await opened(tmp_path_factory.mktemp("bots"))
    number = -1

    def before(name: str) -> None:
        nonlocal number
        number += 1
        _raise(
            faults.get(number),
            {"killed before": Killed(), "lost before": unreachable(), "refused": unreachable(refused=True)},
        )

    def after(name: str) -> None:
        _raise(faults.get(number), {"killed after": Killed(), "lost after": unreachable()})

    platform.before, platform.after = before, after
    await add(database, "a", [Piece("first")])
    await add(database, "f", [Piece("")], file=("a.txt", b"content"))
    for look, count in enumerate(looks):
        pieces = [Piece(f"{look}-{part}") for part in range(count)]
        await database.run(lambda c, pieces=pieces: change_post_in(c, "a", pieces))
        while True:
            try:
                await written(platform, database)
                break
            except Killed:
                continue
    assert [text for text in platform.shown() if text] == [f"{len(looks) - 1}-{part}" for part in range(looks[-1])]
    assert [one.file for one in platform.messages.values() if one.file] == [("a.txt", b"content")]
    await database.aclose()


async def test_a_message_that_may_have_been_deleted_is_sent_again_when_it_is_needed_again(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(), await opened(tmp_path)
    await add(database, "a", [Piece("one"), Piece("two")])
    await written(platform, database)

    def die(name: str) -> None:
        if name == "delete":
            raise Killed

    platform.after = die
    await database.run(lambda c: change_post_in(c, "a", [Piece("one")]))
    with pytest.raises(Killed):
        await written(platform, database)
    platform.after = lambda _: None
    await database.run(lambda c: change_post_in(c, "a", [Piece("one"), Piece("two")]))
    await written(platform, database)
    assert platform.shown() == ["one", "two"]
    await database.aclose()


async def test_what_a_turn_has_shown_stays_until_it_has_something_else(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(edit_seconds=0.001), await opened(tmp_path)
    await add(database, "a", [Piece("the answer")])
    await written(platform, database)
    await database.run(lambda c: change_post_in(c, "a", None))
    one = writer(platform, database)
    one.drafts["a"] = Draft(list, typing=True)
    task = asyncio.create_task(one.run())
    async with asyncio.timeout(60):
        while not platform.typing:
            await asyncio.sleep(0.001)
        one.drafts["a"] = Draft(lambda: [Piece("another answer")], typing=False)
        one.wake()
        while platform.shown() != ["another answer"]:
            await asyncio.sleep(0.001)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert platform.calls == ["send", "edit"]
    await database.aclose()


async def test_a_message_in_the_place_of_a_deleted_one_has_another_key(tmp_path: Path) -> None:
    """Discord takes a second message of the same key for the first one."""
    platform, database = MemoryPlatform(), await opened(tmp_path)
    await add(database, "a", [Piece("one"), Piece("two")])
    await written(platform, database)
    first = {one.key for one in platform.messages.values()}
    for pieces in ([Piece("one")], [Piece("one"), Piece("two")]):
        await database.run(lambda c, pieces=pieces: change_post_in(c, "a", pieces))
        await written(platform, database)
    assert platform.shown() == ["one", "two"]
    assert [*platform.messages.values()][-1].key not in first
    await database.aclose()


@pytest.mark.parametrize("fault", [unreachable(refused=True), Killed()])
async def test_what_takes_the_place_of_a_deleted_one_keeps_its_key_over_failures(
    tmp_path: Path, fault: BaseException
) -> None:
    platform, database = MemoryPlatform(), await opened(tmp_path)
    await add(database, "a", [Piece("one")])
    await written(platform, database)
    platform.messages.clear()
    faults = {"send": fault}

    def fail(name: str) -> None:
        if error := faults.pop(name, None):
            raise error

    platform.before = fail
    await database.run(lambda c: change_post_in(c, "a", [Piece("two")]))
    with suppress(Killed):
        await written(platform, database)
    await written(platform, database)
    assert platform.shown() == ["two"]
    await database.aclose()


async def test_a_lost_message_is_looked_for_after_the_newest_of_all_private_chats(tmp_path: Path) -> None:
    """On Telegram they have one numbering, and a new process knows none of it."""
    platform, database = MemoryPlatform(), await opened(tmp_path)
    await database.run(lambda c: remember_chat_in(c, BOT, Chat("8", private=True), "99"))
    await database.run(lambda c: remember_chat_in(c, BOT, Chat("-8", private=False), "999"))
    await add(database, "a", [Piece("one")])
    await written(platform, database)
    assert await database.run(lambda c: c.execute("SELECT after FROM post_messages").fetchall()) == [("99",)]
    await database.aclose()


async def test_messages_of_other_topics_are_known_and_the_last_one_before(tmp_path: Path) -> None:
    """Topics of a group number their messages together, so that a search in one could take one of another."""
    database = await opened(tmp_path)

    def fill(connection: sqlite3.Connection) -> None:
        for chat, numbers in {"-8/1": (4, 100), "-8/2": (9, 101), "-8": (102,), "-80/1": (98, 103)}.items():
            remember_chat_in(connection, BOT, Chat(chat, private=False), "1")
            for number in numbers:
                key, piece = f"{chat} {number}", Piece("x")
                add_post_in(connection, BOT, chat, key, [piece], now=1)
                note_intent_in(connection, key, PostMessage(0, key, "1", piece, None))
                note_message_in(connection, key, 0, str(number), piece)

    await database.run(fill)
    known = await database.run(lambda c: known_messages_in(c, BOT, "-8/1", "99"))
    assert sorted(map(int, known)) == [9, 100, 101, 102]
    await database.aclose()


async def test_replies_begin_in_the_order_of_their_messages(tmp_path: Path) -> None:
    platform, database = MemoryPlatform(), await opened(tmp_path)
    for key, session in (("a", "s"), ("b", "s"), ("c", "another")):
        about = (BOT, CHAT.id, "ada", "telegram:1", session, key, "", "steer", None, None, "telegram:1", "Ann", key)
        one = Reply(key, *about)
        await database.run(lambda c, one=one: add_reply_in(c, one))
        await add(database, key, None)
    await add(database, "card", [Piece("Allow?")])
    for key, text in (("b", "second"), ("c", "of another session")):
        await database.run(lambda c, key=key, text=text: change_post_in(c, key, [Piece(text)]))
    await written(platform, database)
    assert platform.shown() == ["of another session", "Allow?"]
    await database.run(lambda c: change_post_in(c, "a", [Piece("first"), Piece("and more of it")]))
    await written(platform, database)
    assert platform.shown() == ["of another session", "Allow?", "first", "and more of it", "second"]
    await database.aclose()
