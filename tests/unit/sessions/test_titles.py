"""The titles of sessions that nobody has named."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from agent_runtime.sessions import NewTurn, branches, listing, rows
from agent_runtime.sessions.store.titles import TITLE_LENGTH, title_of

from .message_log import Log, memory


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


FILE = {"type": "file", "mediaType": "image/png", "url": "data:,"}


def say(log: Log, session: str, *parts: dict[str, Any]) -> None:
    named = tuple((log.ids.new("prt"), part) for part in parts)
    rows.insert_turn(log.db, NewTurn(log.ids.new("msg"), session, log.ids.new("msg"), named, "f", queued=False), 1)


def title(db: sqlite3.Connection, session: str) -> str | None:
    found = listing.session(db, session)
    assert found is not None
    return found.metadata.get("title")


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([text("hello")], "hello"),
        ([text(" two\n\n lines\tof it ")], "two lines of it"),
        ([text("w" * TITLE_LENGTH)], "w" * TITLE_LENGTH),
        ([text("word " * 1000)], "word " * 11 + "word…"),
        ([text("a " * 30)], "a " * 29 + "a"),
        ([text("a " * 31)], "a " * 29 + "a…"),
        ([text("\x1b]0;owned\x07 \u202egnp.exe")], r"\x1b]0;owned\x07 \u202egnp.exe"),
        ([text("caffè 日本語 👩‍🚀")], "caffè 日本語 👩‍🚀"),
        ([FILE, text(""), text("what is this?")], "what is this?"),
        ([FILE], ""),
        ([text("  \n")], ""),
        ([text("\u200b" * 5000)], r"\u200b" * 9 + r"\u200" + "…"),
    ],
)
def test_a_title_is_the_beginning_of_the_text_in_one_line(parts: list[dict[str, Any]], expected: str) -> None:
    assert title_of(parts) == expected
    assert len(expected) <= TITLE_LENGTH


def test_a_session_is_named_by_its_first_text_alone() -> None:
    with memory() as db:
        log = Log(db)
        session = log.begin()
        say(log, session, FILE)
        assert title(db, session) is None
        say(log, session, text("what is this?"))
        say(log, session, text("and this?"))
        assert title(db, session) == "what is this?"
        branches.update_metadata(db, session, {"title": None}, {}, 5)
        say(log, session, text("and that?"))
        assert title(db, session) is None, "its caller has taken it away"


def test_a_title_that_a_caller_has_set_stays() -> None:
    with memory() as db:
        log = Log(db)
        session, other = log.begin(), log.begin()
        branches.update_metadata(db, session, {"title": "Mine"}, {}, 5)
        say(log, session, text("hello"))
        assert (title(db, session), title(db, other)) == ("Mine", None)
