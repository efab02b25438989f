"""Pairing codes: what a stranger passes to the operator. The database holds hashes, so a copy of it opens nothing."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3

ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Without characters that are taken for one another: 0 and O, 1 and I."""
LENGTH = 8
_ITERATIONS = 20_000
"""Of the hash: a code has 40 bits, which a fast hash would give away before the code expires."""


def new_code() -> str:
    """Return a code that cannot be guessed."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def normalized(typed: str) -> str | None:
    """Return the code that was typed, in capitals and without blanks and dashes; None if it cannot be one."""
    code = "".join(typed.upper().replace("-", " ").split())
    return code if len(code) == LENGTH and set(code) <= set(ALPHABET) else None


def hash_in(connection: sqlite3.Connection, code: str) -> bytes:
    """Return the hash of a code, which differs between databases."""
    salt: bytes = connection.execute("SELECT salt FROM code_salt").fetchone()[0]
    return hashlib.pbkdf2_hmac("sha256", code.encode(), salt, _ITERATIONS)
