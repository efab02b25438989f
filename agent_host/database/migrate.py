"""Make or upgrade a database's schema. Alembic is slow to import, so it is loaded only if an upgrade is needed."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Column, Connection, Engine, MetaData, String, Table, insert, inspect, text
from sqlalchemy.schema import CreateTable

from ..errors import StartError
from .tables import metadata

HEAD = "0028"
"""The newest revision under `migrations/versions`."""
_MIGRATIONS = Path(__file__).parent / "migrations"
_VERSIONS = Table("alembic_version", MetaData(), Column("version_num", String(32), primary_key=True))
"""The table in which alembic looks up the revision."""
_LOCK_KEY = 0x736368656D61
"""The key of an advisory lock. No other lock has it."""


def migrate(engine: Engine) -> None:
    """Upgrade to HEAD in one transaction, so that a host that is killed meanwhile has changed nothing. A new database
    gets the tables as they are now. Raises StartError if a newer version has created the database."""
    with engine.connect() as connection:
        if _revision(connection) == HEAD:
            return
    with engine.begin() as connection:
        _lock(connection)
        current = _revision(connection)  # another host may have been faster
        if current is None and not inspect(connection).get_table_names():
            _create(connection)
        elif current is None or current < HEAD:
            _upgrade(connection)
        elif current > HEAD:
            raise StartError(
                f"the database is at revision {current}, and this version knows only up to {HEAD}: "
                "a newer agent-host made it. Run that version, or point MESH_DATA_DIR at another folder."
            )


def _lock(connection: Connection) -> None:
    """Let no other host upgrade at the same time. SQLite's driver begins no transaction for a change of the schema, so
    without this each change would stay even if a later one fails."""
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    elif connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})


def _create(connection: Connection) -> None:
    metadata.create_all(connection, checkfirst=False)
    connection.execute(CreateTable(_VERSIONS))
    connection.execute(insert(_VERSIONS).values(version_num=HEAD))


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
