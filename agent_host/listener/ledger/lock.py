"""Lock a ledger for one listener: it keeps state in memory, and a second one would send the same work again."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager

from sqlalchemy import create_engine, make_url, text

from ...errors import StartError

_ADVISORY = 0x6D65642F31
"""`med/1` in hex; the key of the lock, which no other program should use."""


@contextmanager
def ledger_lock(url: str) -> Generator[None]:
    """Lock the ledger in the database of that URL for this process. A crash releases the lock, too.

    Raises StartError when another one has it.
    """
    parsed = make_url(url)
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        if parsed.database and parsed.database != ":memory:":
            with _file_lock(f"{parsed.database}.work.lock"):
                yield
        else:
            yield
    elif kind == "postgresql":
        with _advisory(url):
            yield
    else:
        raise StartError(f"MESH_DATABASE_URL: the work ledger needs SQLite or PostgreSQL, and this is {kind}")


@contextmanager
def _file_lock(path: str) -> Generator[None]:
    try:
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StartError(f"MESH_DATABASE_URL: cannot write {path}: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise _locked_error() from error
    finally:
        os.close(lock)


@contextmanager
def _advisory(url: str) -> Generator[None]:
    engine = create_engine(url, hide_parameters=True)
    try:
        with engine.connect() as connection:
            if not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _ADVISORY}).scalar():
                raise _locked_error()
            connection.commit()
            yield
    finally:
        engine.dispose()


def _locked_error() -> StartError:
    return StartError(
        "another listener works on this ledger; stop it, or set MESH_DATABASE_URL to another database: "
        "two on one ledger would give the same work twice"
    )
