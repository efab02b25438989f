"""Sessions in a database in memory, told whole turns at a time, by a clock that stands still unless it is moved."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from agent_common.protocol import Usage
from agent_runtime.sessions import (
    MIGRATIONS,
    Branch,
    Ids,
    MessageRow,
    NewSession,
    NewTurn,
    SessionCopy,
    branches,
    history,
    listing,
    plan_fork,
    rows,
)
from agent_runtime.sessions.store.rows import PartRow
from agent_testing import ManualClock

USAGE = Usage(input=7, output=5, reasoning=3, cache_read=2, cache_write=1)


def write_at_once(connection: sqlite3.Connection, copy: SessionCopy) -> None:
    """Store a session as a part of the caller's unit."""
    copy.begin(connection)
    copy.step(connection, 0, lambda: False)


@contextmanager
def memory() -> Generator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        for migration in sorted(MIGRATIONS, key=lambda one: one.number):
            migration.apply(connection)
        yield connection


@dataclass
class Log:
    """Sessions on a real database whose clock hardly ever moves: ties are the rule here."""

    db: sqlite3.Connection
    clock: ManualClock = field(default_factory=ManualClock)
    said: int = 0

    def __post_init__(self) -> None:
        self.ids = Ids(self.clock)

    def begin(self) -> str:
        session = NewSession(self.ids.new("ses"), "ann", "default", "/ws", "m", "a prompt", "digest", ("read",))
        rows.insert_session(self.db, session, self.clock.now_ms())
        return session.id

    def send(self, session: str, **more: Any) -> tuple[str, str]:
        """A turn from its admission to its end; the texts of both messages."""
        self.said += 1
        ask, answer, now = f"ask {self.said}", f"answer {self.said}", self.clock.now_ms()
        user, reply = self.ids.new("msg"), self.ids.new("msg")
        parts = ((self.ids.new("prt"), {"type": "text", "text": ask}),)
        given: dict[str, Any] = {"fingerprint": "f", "queued": False, "client_id": ask, **more}
        rows.insert_turn(self.db, NewTurn(user, session, reply, parts, **given), now)
        if given["queued"]:
            return ask, answer
        books = {"usage": USAGE.model_dump(), "model": {"provider_id": "mesh", "model_id": "m"}}
        rows.upsert_message(self.db, MessageRow(reply, session, "assistant", books, now, now))
        part = PartRow(self.ids.new("prt"), reply, session, 0, {"type": "text", "text": answer}, now)
        rows.upsert_part(self.db, part)
        self.db.execute("UPDATE chat_parts SET data_json = data_json || '   ' WHERE id = ?", (part.id,))
        rows.add_usage(self.db, session, USAGE, now)
        rows.end_turn(self.db, user, {"status": "complete"}, now)
        return ask, answer

    def fork(self, session: str, message: str | None = None, **more: Any) -> str:
        given: dict[str, Any] = {"title": None, "custom": {}, "ephemeral": False, **more}
        branch = Branch(session, message, **given)
        fork = plan_fork(self.db, branch, self.ids.new, self.clock.now_ms())
        write_at_once(self.db, fork)
        return fork.session_id

    def rewind(self, session: str, message: str, **more: Any) -> branches.RewindResult:
        return branches.rewind(self.db, session, message, self.clock.now_ms(), **more)

    def unrewind(self, session: str) -> int:
        return branches.unrewind(self.db, session, self.clock.now_ms())

    def view(self, session: str) -> list[str]:
        """The texts that the session shows, in order; the paged list must agree."""
        shown = [one for one in history.messages(self.db, session) if one.shown]
        assert [one.id for one in listing.messages(self.db, session, limit=1000).messages] == [one.id for one in shown]
        return [part["text"] for message in shown for part in message.parts]

    def users(self, session: str) -> list[str]:
        return [one.id for one in history.messages(self.db, session) if one.shown and one.role == "user"]

    def count(self) -> tuple[int, int]:
        return tuple(
            self.db.execute("SELECT (SELECT count(*) FROM chat_messages), (SELECT count(*) FROM chat_parts)").fetchone()
        )

    def tokens(self, session: str) -> int:
        return self.db.execute("SELECT total_tokens FROM chat_sessions WHERE id = ?", (session,)).fetchone()[0]
