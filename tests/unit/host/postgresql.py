"""A PostgreSQL server of the tests' own, where this machine has the programs."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

_SETTINGS = ("listen_addresses=", "max_connections=30")


def has_postgresql() -> bool:
    """Whether this machine has the programs."""
    return _programs() is not None


@contextmanager
def postgresql(*, fsync: bool = False) -> Generator[str]:
    """The URL of a server that listens on a socket; a `%s` in it stands for the database.

    `fsync`: it writes as one of an operator does; otherwise what it has committed is lost with the machine."""
    programs = _programs()
    if programs is None:
        stop = pytest.fail if os.environ.get("CI") else pytest.skip
        stop("PostgreSQL is not installed; `make setup` installs it where it may")
    with tempfile.TemporaryDirectory() as folder:  # the path of a socket must be short
        yield from _serve(programs, Path(folder), "nobody" if os.geteuid() == 0 else None, fsync)


def _programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`: Debian does not put them on the PATH."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    return max(Path("/usr/lib/postgresql").glob("*/bin"), default=None)


def _serve(programs: Path, folder: Path, user: str | None, fsync: bool) -> Generator[str]:
    """`user` is whom the server runs as, which refuses to be root; none: this one."""
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    settings = (*_SETTINGS, f"fsync={'on' if fsync else 'off'}", f"unix_socket_directories={folder}")
    data, options = folder / "data", " ".join(f"-c {one}" for one in settings)

    def run(*command: str | Path) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, user=user, cwd=folder, timeout=60)

    run(programs / "initdb", "--no-sync", "--auth=trust", "--username=tests", "--encoding=UTF8", data)
    run(programs / "pg_ctl", "start", "--wait", "-D", data, "-o", options, "-l", folder / "log")
    try:
        yield f"postgresql+psycopg://tests@/%s?host={folder}"
    finally:
        run(programs / "pg_ctl", "stop", "--wait", "--mode=immediate", "-D", data)


def new_database(server: str, name: str) -> str:
    """Make a database on a server; its URL."""
    engine = create_engine(server % "postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f'CREATE DATABASE "{name}"'))
    engine.dispose()
    return server % name
