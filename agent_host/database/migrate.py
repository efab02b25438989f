"""Upgrade a database's schema. Alembic is slow to import, so it is loaded only if an upgrade is needed."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from ..errors import StartError

HEAD = "0028"
"""The newest revision under `migrations/versions`."""
_MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(engine: Engine) -> None:
    """Upgrade to HEAD in one transaction. Raises StartError if a newer version has created the database."""
    with engine.begin() as connection:
        current = _revision(connection)
        if current == HEAD:
            return
        if current is not None and current > HEAD:
            raise StartError(
                f"the database is at revision {current}, and this version knows only up to {HEAD}: "
                "a newer agent-host made it. Run that version, or point MESH_DATA_DIR at another folder."
            )
        _upgrade(connection)


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
