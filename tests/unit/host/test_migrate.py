"""The schema of the host's database: made at once or by the revisions, in one transaction."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, inspect, text

from agent_host.database import open_database
from agent_host.database.migrate import HEAD
from agent_host.database.tables import metadata
from tests.unit.host.postgresql import new_database, postgresql

MIGRATIONS = Path(__file__).parents[3] / "agent_host/database/migrations"
KILLED = """
import os, sys
from sqlalchemy import event
from sqlalchemy.engine import Engine
left = int(sys.argv[2])

@event.listens_for(Engine, "after_cursor_execute")
def count(*_):
    global left
    left -= 1
    if not left:
        os._exit(9)

from agent_host.database import open_database
open_database(sys.argv[1])
"""


def new_url(folder: Path) -> str:
    return f"sqlite:///{folder / 'mesh.db'}"


def upgrade(url: str, revision: str) -> None:
    """Make a database as an older version has left it."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with closing_engine(url) as engine, engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


@contextmanager
def closing_engine(url: str) -> Generator[Engine]:
    engine = create_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def shape(connection: Connection) -> dict[str, Any]:
    """All that the database knows of its tables, but for the order of their columns."""
    found = inspect(connection)
    return {
        name: {
            "columns": {
                one["name"]: (str(one["type"]), one["nullable"], one["default"]) for one in found.get_columns(name)
            },
            "key": sorted(found.get_pk_constraint(name)["constrained_columns"]),
            "unique": sorted(tuple(one["column_names"]) for one in found.get_unique_constraints(name)),
            "indexes": {
                one["name"]: (one["column_names"], one["unique"], where(one)) for one in found.get_indexes(name)
            },
            "foreign": found.get_foreign_keys(name),
            "checks": found.get_check_constraints(name),
        }
        for name in found.get_table_names()
    }


def where(index: Any) -> list[str]:
    """The condition of a partial index."""
    return sorted(str(value) for key, value in index.get("dialect_options", {}).items() if key.endswith("where"))


def shape_of(url: str) -> dict[str, Any]:
    with closing(open_database(url)) as database:
        return database.run_sync(shape)


def assert_alike(one: str, other: str) -> None:
    """A new database, and one that goes through all revisions."""
    upgrade(other, HEAD)
    assert shape_of(one) == shape_of(other)
    with closing(open_database(one)) as database:
        found = database.run_sync(lambda connection: compare_metadata(MigrationContext.configure(connection), metadata))
    assert found == []


def test_a_new_database_is_what_the_revisions_make(tmp_path: Path) -> None:
    assert_alike(new_url(tmp_path), f"sqlite:///{tmp_path / 'other.db'}")


@pytest.mark.slow
def test_a_new_database_is_what_the_revisions_make_on_postgresql() -> None:
    with postgresql() as server:
        assert_alike(new_database(server, "made"), new_database(server, "upgraded"))


def test_head_is_the_newest_revision() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_current_head() == HEAD


@pytest.mark.parametrize("before", [None, "0001", "0020"])
def test_a_start_that_fails_at_any_statement_changes_nothing(tmp_path: Path, before: str | None) -> None:
    url = new_url(tmp_path)
    if before is not None:
        upgrade(url, before)

    def tables() -> dict[str, Any]:
        with closing_engine(url) as engine, engine.connect() as connection:
            return shape(connection)

    known, at, failed = tables(), 3, True
    while failed:
        failed = fail_at(at, url)
        assert not failed or tables() == known
        at += 9
    assert at > 30
    with closing(open_database(url)) as database:
        revision = database.run_sync(lambda connection: connection.execute(text("SELECT * FROM alembic_version")).all())
    assert revision == [(HEAD,)]


def fail_at(statement: int, url: str) -> bool:
    """Open the database, which fails at that statement if there are as many. Returns whether it has failed."""
    left = statement

    def count(*_: object) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise KeyError(statement)

    event.listen(Engine, "after_cursor_execute", count)
    try:
        open_database(url).close()
    except KeyError:
        return True
    finally:
        event.remove(Engine, "after_cursor_execute", count)
    return False


@pytest.mark.parametrize("before", [None, "0020"])
def test_a_host_that_is_killed_at_its_start_starts_again(tmp_path: Path, before: str | None) -> None:
    url = new_url(tmp_path)
    if before is not None:
        upgrade(url, before)
    killed = subprocess.run([sys.executable, "-c", KILLED, url, "20"], check=False, timeout=60)
    assert killed.returncode == 9
    assert shape_of(url).keys() > {"tokens", "work"}


def test_hosts_that_start_at_once_make_one_database(tmp_path: Path) -> None:
    url, failed = new_url(tmp_path), list[BaseException]()

    def start() -> None:
        try:
            open_database(url).close()
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == []
    assert shape_of(url).keys() > {"tokens", "work"}
