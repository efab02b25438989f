"""Pairing: a stranger gets a code in the chat, and the operator confirms it with `agent bots pair CODE`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..store import drop_of_sender_in, transaction
from .codes import hash_in, new_code, normalized
from .person import identities_in

CODE_LIFETIME_MS = 3600 * 1000
MAX_CODES = 100
"""Codes that are valid at a time, of all strangers together."""
MAX_WRONG_CODES = 10
"""Wrong codes within WRONG_CODE_MS; after these none is looked at."""
WRONG_CODE_MS = 3600 * 1000


class PairingError(Exception):
    """The operator's request cannot be carried out. The message says the fix."""


class WrongCode(PairingError):
    """No stranger has this code."""


@dataclass(frozen=True, slots=True)
class Paired:
    """An identity that the operator has admitted to a bot."""

    bot: str
    identity: str
    chat: str
    """The private chat in which the code was shown."""
    principal: str
    expires_at: int
    """When the code would have expired, in epoch milliseconds: another pairing of theirs has another one."""


def code_in(
    connection: sqlite3.Connection, bot: str, identity: str, *, chat: str, known: str | None, now: int
) -> str | None:
    """Return the code of a stranger: the one that is `known` if it is valid, else a new one in the place of an earlier
    one. None: there are too many. `now` is in epoch milliseconds."""
    connection.execute("DELETE FROM pairings WHERE expires_at <= ? AND confirmed_as IS NULL", (now,))
    mine = connection.execute("SELECT 1 FROM pairings WHERE bot = ? AND identity = ?", (bot, identity)).fetchone()
    if mine is not None and known is not None:
        return known
    count: int = connection.execute("SELECT COUNT(*) FROM pairings").fetchone()[0]
    if mine is None and count >= MAX_CODES:
        return None
    code = new_code()
    connection.execute(
        "INSERT OR REPLACE INTO pairings (bot, identity, chat, code_hash, expires_at) VALUES (?, ?, ?, ?, ?)",
        (bot, identity, chat, hash_in(connection, code), now + CODE_LIFETIME_MS),
    )
    return code


def confirm(connection: sqlite3.Connection, typed: str, person: str | None, *, now: int) -> Paired:
    """Admit the stranger who has the code, as a person of their own or linked to `person`. Raises PairingError."""
    code = normalized(typed)
    with transaction(connection):
        _check_wrong_codes(connection, now)
        row = None if code is None else _waiting_with(connection, hash_in(connection, code), now)
        if row is not None:
            return _admit(connection, *row, person)
        connection.execute("INSERT INTO wrong_codes (at) VALUES (?)", (now,))
    raise WrongCode("no stranger has this code now; a code is valid for an hour, and a message to the bot shows it")


def _check_wrong_codes(connection: sqlite3.Connection, now: int) -> None:
    connection.execute("DELETE FROM wrong_codes WHERE at <= ?", (now - WRONG_CODE_MS,))
    count, oldest = connection.execute("SELECT COUNT(*), MIN(at) FROM wrong_codes").fetchone()
    if count >= MAX_WRONG_CODES:
        minutes = (oldest + WRONG_CODE_MS - now) // 60_000 + 1
        raise PairingError(f"there were {count} wrong codes within an hour; try again in {minutes} min")


def _waiting_with(connection: sqlite3.Connection, code_hash: bytes, now: int) -> tuple[str, str, str, int] | None:
    return connection.execute(
        "SELECT bot, identity, chat, expires_at FROM pairings"
        " WHERE code_hash = ? AND expires_at > ? AND confirmed_as IS NULL",
        (code_hash, now),
    ).fetchone()


def _admit(
    connection: sqlite3.Connection, bot: str, identity: str, chat: str, expires_at: int, person: str | None
) -> Paired:
    principal = identity if person is None else _principal_of(connection, person)
    if principal is None:
        raise PairingError(f"there is no person {person!r}; `agent bots people` lists those there are")
    present = _principal_of(connection, identity)
    if person is not None and present not in (None, principal):
        raise PairingError(f"{identity} belongs to {present}; `agent bots unpair {identity}` first")
    principal = present or principal
    connection.execute("INSERT OR IGNORE INTO identities (identity, person) VALUES (?, ?)", (identity, principal))
    connection.execute(
        "INSERT INTO admissions (bot, identity, source, private_chat) VALUES (?, ?, 'code', ?)"
        " ON CONFLICT DO UPDATE SET source = 'code', private_chat = excluded.private_chat",
        (bot, identity, chat),
    )
    connection.execute(
        "UPDATE pairings SET confirmed_as = ? WHERE bot = ? AND identity = ?", (principal, bot, identity)
    )
    return Paired(bot, identity, chat, principal, expires_at)


def _principal_of(connection: sqlite3.Connection, identity: str) -> str | None:
    row = connection.execute("SELECT person FROM identities WHERE identity = ?", (identity,)).fetchone()
    return None if row is None else row[0]


def confirmed_in(connection: sqlite3.Connection) -> list[Paired]:
    """Return those who have been admitted and do not know it yet."""
    rows = connection.execute(
        "SELECT bot, identity, chat, confirmed_as, expires_at FROM pairings WHERE confirmed_as IS NOT NULL ORDER BY 5"
    )
    return [Paired(*row) for row in rows]


def end_pairing_in(connection: sqlite3.Connection, bot: str, identity: str) -> None:
    """Forget the code of a person who is admitted and knows it."""
    connection.execute("DELETE FROM pairings WHERE bot = ? AND identity = ?", (bot, identity))


def unpair_in(connection: sqlite3.Connection, principal: str, *, now: int) -> frozenset[str]:
    """Take all bots away from a person, or from one of their linked identities; what waits of them is dropped. Return
    the identities that this concerns. Raises PairingError."""
    gone = identities_in(connection, principal)
    if not gone and _principal_of(connection, principal) is None:
        raise PairingError(f"there is no person {principal!r}; `agent bots people` lists those there are")
    gone = gone or frozenset({principal})
    for identity in gone:
        connection.execute("DELETE FROM identities WHERE identity = ?", (identity,))
        connection.execute("DELETE FROM pairings WHERE identity = ?", (identity,))
        drop_of_sender_in(connection, identity, now=now)
    return gone


def allow_in(connection: sqlite3.Connection, allowed: Mapping[str, Iterable[str]]) -> None:
    """Admit exactly these identities without a code, by bot: those whom the settings named before lose it."""
    wanted = {(bot, identity) for bot, identities in allowed.items() for identity in identities}
    present = set[tuple[str, str]](
        connection.execute("SELECT bot, identity FROM admissions WHERE source = 'settings'").fetchall()
    )
    for bot, identity in present - wanted:
        connection.execute("DELETE FROM admissions WHERE bot = ? AND identity = ?", (bot, identity))
    for bot, identity in wanted - present:
        connection.execute("INSERT OR IGNORE INTO identities (identity, person) VALUES (?, ?)", (identity, identity))
        connection.execute(
            "INSERT OR IGNORE INTO admissions (bot, identity, source) VALUES (?, ?, 'settings')", (bot, identity)
        )
    connection.execute("DELETE FROM identities WHERE identity NOT IN (SELECT identity FROM admissions)")
