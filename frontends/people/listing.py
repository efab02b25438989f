"""Who is paired, for the operator."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter


@dataclass(frozen=True, slots=True)
class ListedPerson:
    """A person, and the bots that they may use."""

    principal: str
    identities: tuple[str, ...]
    bots: tuple[str, ...]
    allowed: frozenset[str]
    """The identities that the settings admit."""


def people_in(connection: sqlite3.Connection) -> list[ListedPerson]:
    """Return all people, in the order of their principals."""
    rows = connection.execute(
        "SELECT person, identity, bot, source FROM identities JOIN admissions USING (identity) ORDER BY 1, 2, 3"
    ).fetchall()
    return [_listed(principal, [*entries]) for principal, entries in groupby(rows, key=itemgetter(0))]


def _listed(principal: str, entries: Sequence[tuple[str, str, str, str]]) -> ListedPerson:
    return ListedPerson(
        principal,
        identities=tuple(sorted({identity for _, identity, _, _ in entries})),
        bots=tuple(sorted({bot for _, _, bot, _ in entries})),
        allowed=frozenset(identity for _, identity, _, source in entries if source == "settings"),
    )
