"""`agent-host backup` of a host that works, and a host that starts from it."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from agent_testing import LiveProcess
from tests.integration.host.live import PATIENCE, UP, Host

BACKUP = [*UP[:-1], "backup"]


def run(command: list[str], host: Host, **settings: str) -> tuple[int, str]:
    """The exit code of a command of the host's, and what it prints."""
    with LiveProcess(command, {**host.env, **settings}) as process:
        return process.wait(PATIENCE), process.output().strip()


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


@pytest.mark.slow
def test_a_new_host_starts_from_the_backup_of_one_that_works(tmp_path: Path) -> None:
    with Host(tmp_path / "old", MESH_PROVIDER="demo") as host:
        assert host.operator.post("/workspaces", json={"id": "far", "driver": "external"}).status_code == 201
        kept = Path(host.token_command("writer", "--keep"))
        assert host.operator.put("/artifacts/report.txt", content=b"units: 4").status_code == 201
        (file,) = (tmp_path / "old" / "artifacts").iterdir()
        with ThreadPoolExecutor(1) as pool:  # the database changes meanwhile
            names = [f"r{number}" for number in range(50)]
            sent = pool.map(lambda name: submit(host, name), names)
            assert run([*BACKUP, str(tmp_path / "copy")], host) == (0, str(tmp_path / "copy"))
            assert set(sent) == {202}
        assert host.operator.delete("/artifacts/report.txt").status_code == 204
        token = kept.read_text().strip()
    assert not file.exists()
    kept_modes = {"mesh.db": 0o600, "tokens": 0o700, "tokens/writer": 0o600}
    assert modes(tmp_path / "copy") == {**kept_modes, "artifacts": 0o700, f"artifacts/{file.name}": 0o600}
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o700
    shutil.copytree(tmp_path / "copy", tmp_path / "new")
    with Host(tmp_path / "new", MESH_PROVIDER="demo") as restored:
        [far] = restored.operator.get("/workspaces").json()["workspaces"]
        assert (far["id"], far["state"]) == ("far", "running")
        with restored.client(token) as writer:
            assert writer.get("/v1/models").status_code == 200
        assert submit(restored, "r-after") == 202
        assert restored.operator.get("/artifacts/report.txt").content == b"units: 4"


def submit(host: Host, name: str) -> int:
    request = {"request_id": name, "content": "Hello"}
    return host.operator.post("/work", json={"workspace": "far", "request": request}).status_code


@pytest.mark.slow
def test_backups_in_the_data_folder_are_limited(tmp_path: Path) -> None:
    with Host(tmp_path) as host:
        backups = tmp_path / "backups"
        for name in ("mesh-20260101T000000Z", "mesh-20260102T000000Z", "mesh-20260103T000000Z", "mine"):
            (backups / name).mkdir(parents=True)
        code, made = run([*BACKUP, "--keep", "2"], host)
        assert code == 0, made
        assert {path.name for path in backups.iterdir()} == {"mesh-20260103T000000Z", Path(made).name, "mine"}


@pytest.mark.slow
def test_a_backup_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Host(data) as host:
        (tmp_path / "taken").mkdir()
        cases = {
            "taken": ({}, "exists already; name a folder that does not"),
            "other": ({"MESH_DATABASE_URL": "postgresql+psycopg://u@h/db"}, "use its own, such as pg_dump"),
            "empty": ({"MESH_DATA_DIR": str(tmp_path / "nothing")}, "there is no database at"),
        }
        for name, (settings, why) in cases.items():
            code, said = run([*BACKUP, str(tmp_path / name)], host, **settings)
            assert (code, why in said) == (1, True), said
    with closing(sqlite3.connect(data / "mesh.db")) as connection:
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    with (data / "mesh.db").open("r+b") as file:
        file.seek(3 * size)
        file.write(b"\xff" * size * 4)
    code, said = run([*BACKUP, str(tmp_path / "damaged")], host)
    assert code == 1, said
    assert "no backup was made" in said
    assert {path.name for path in tmp_path.iterdir()} == {"data", "taken"}
