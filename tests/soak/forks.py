"""Copies of sessions: whole or not there, whoever was told of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from .ledger import Ledger

_SAID = """
  SELECT m.role, p.data_json FROM chat_messages m
  JOIN chat_parts p ON p.message_id = m.id
  LEFT JOIN turns t ON t.message_id = m.id OR t.reply_id = m.id
  WHERE m.session_id = :session AND json_extract(m.metadata_json, '$.hidden_at') IS NULL {only}
  ORDER BY m.created_at, m.id, p."index"
"""
_ALL, _COPIED = _SAID.format(only=""), _SAID.format(only="AND t.seq IS NULL")


def forks(database: Path, ledger: Ledger) -> Iterator[str]:
    """Every fault of a fork, in words."""
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
        made = dict(connection.execute("SELECT id, parent_id FROM chat_sessions WHERE parent_id IS NOT NULL"))
        names = dict(connection.execute("SELECT alias, session_id FROM session_aliases"))
        for fork in ledger.forks:
            if fork.id not in made:
                yield f"the fork {fork.id} of {fork.parent} was acknowledged and is not there"
            elif made[fork.id] != names.get(fork.parent, fork.parent):
                yield f"the fork {fork.id} of {fork.parent} belongs to {made[fork.id]}"
        for child, parent in made.items():
            copied = connection.execute(_COPIED, {"session": child}).fetchall()
            original = connection.execute(_ALL, {"session": parent}).fetchall()
            if copied != original[: len(copied)]:
                yield f"the fork {child} is no copy of the beginning of {parent}"
            elif len(copied) < len(original) and original[len(copied)][0] != "user":
                yield f"the fork {child} breaks off in the middle of an answer"
