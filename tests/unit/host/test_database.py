"""The host's database: made, upgraded, refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, create_engine, insert, select

from agent_host.database import HostDatabase, channels, model_calls, open_database, tokens, workspaces
from agent_host.database.migrate import HEAD
from agent_host.errors import StartError

MIGRATIONS = Path(__file__).parents[3] / "agent_host/database/migrations"


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'mesh.db'}"


def refusal(text: str) -> str:
    with pytest.raises(StartError) as caught:
        open_database(text)
    return caught.value.message


def test_a_database_is_private_and_ready_for_company(tmp_path: Path) -> None:
    with closing(open_database(url(tmp_path))) as database:
        mode = database.run_sync(lambda connection: connection.exec_driver_sql("PRAGMA journal_mode").scalar())
    assert mode == "wal"
    assert (tmp_path / "mesh.db").stat().st_mode & 0o077 == 0


def row(name: str) -> dict[str, object]:
    return {"digest": name, "agent_id": name, "purpose": "manual", "created_at": 1}


def test_channels_of_machines_were_always_required(tmp_path: Path) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with create_engine(url(tmp_path)).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0002")
        for driver in ("qemu", "container", "process"):
            workspace = {"id": driver, "driver": driver, "state": "stopped", "url": "", "token": "", "created_at": 1}
            connection.execute(insert(workspaces).values(workspace))
            channel = "INSERT INTO channels (workspace, dialect, auth, epoch, drained, created_at)"
            connection.exec_driver_sql(f"{channel} VALUES ('{driver}', 'strict', 'hmac', 0, 0, 1)")
    with closing(open_database(url(tmp_path))) as database:
        rows = database.run_sync(lambda connection: connection.execute(select(channels)).mappings().all())
    assert {row["workspace"]: row["required"] for row in rows} == {"qemu": True, "container": True, "process": False}


async def test_what_is_written_is_there_the_next_time(tmp_path: Path) -> None:
    with closing(open_database(url(tmp_path))) as database:
        await database.run(lambda connection: connection.execute(insert(tokens).values(row("a"))))
    with closing(open_database(url(tmp_path))) as database:
        assert await agents(database) == ["a"]


async def test_work_that_raises_leaves_nothing(tmp_path: Path) -> None:
    def work(connection: Connection) -> None:
        connection.execute(insert(tokens).values(row("a")))
        raise KeyError("half-way")

    with closing(open_database(url(tmp_path))) as database:
        with pytest.raises(KeyError):
            await database.run(work)
        assert await agents(database) == []


async def agents(database: HostDatabase) -> list[str]:
    return await database.run(lambda connection: list(connection.execute(select(tokens.c.agent_id)).scalars()))


def test_a_newer_database_is_refused_untouched(tmp_path: Path) -> None:
    open_database(url(tmp_path)).close()
    with closing(sqlite3.connect(tmp_path / "mesh.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    message = refusal(url(tmp_path))
    assert f"at revision 9999, and this version knows only up to {HEAD}" in message
    assert "newer agent-host" in message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "MESH_DATABASE_URL: Could not parse"),
        ("magic://x", "MESH_DATABASE_URL: Can't load plugin"),
        ("sqlite:////dev/null/mesh.db", "the database cannot be opened: Not a directory"),
        ("sqlite+nothing:///x.db", "MESH_DATABASE_URL: "),
    ],
)
def test_a_url_that_leads_nowhere_is_refused(text: str, why: str) -> None:
    assert why in refusal(text)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mesh.db").write_text("no database " * 100)
    assert "file is not a database" in refusal(url(tmp_path))


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
@pytest.mark.parametrize(
    "rest", ["me:hush@127.0.0.1:1/mesh", "me:hu/hush@127.0.0.1:1/mesh", "127.0.0.1:1/mesh?password=hush"]
)
def test_a_password_is_not_shown(scheme: str, rest: str) -> None:
    # Nothing listens on port 1; whether or not the driver is installed, the password stays out of the text.
    assert "hush" not in refusal(f"{scheme}://{rest}")


def test_the_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "mesh.db").write_text("no database " * 100)
    assert f"the database {url(tmp_path)} cannot be opened" in refusal(url(tmp_path))


def test_a_database_in_memory_serves_too() -> None:
    with closing(open_database("sqlite://")) as database:
        assert database.run_sync(lambda connection: connection.execute(select(model_calls)).all()) == []
