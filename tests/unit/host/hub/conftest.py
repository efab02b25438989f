"""Hubs of each kind of store."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent_host.database import open_database


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with its tables, made once."""
    path = tmp_path_factory.mktemp("hub") / "hub.db"
    open_database(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def file_url(empty_database: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(empty_database, tmp_path / 'hub.db')}"


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest) -> str:
    return "memory://" if request.param == "memory" else request.getfixturevalue("file_url")
