"""Backups of a server at work, and the way back from a damaged database, followed to the letter."""

from __future__ import annotations

import re
import sqlite3
import stat
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from agent_testing import Say, ScriptedProvider

from ..conftest import Start
from ..live import Runtime, eventually, fresh
from ..server.test_start import refused

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "storage.md"
BACKUP = [sys.executable, "-m", "agent_runtime", "backup"]


def back_up(data_dir: Path, *file: Path) -> subprocess.CompletedProcess[str]:
    """The command, as an operator gives it in the environment of the server; again where the server was making one."""
    env = {"AGENT_DATA_DIR": str(data_dir), "PATH": "/usr/bin:/bin"}
    deadline = time.monotonic() + 30
    while True:
        made = subprocess.run([*BACKUP, *file], env=env, capture_output=True, text=True, check=False, timeout=60)
        if "another one is being made" not in made.stderr or time.monotonic() > deadline:
            return made


def backups(agent: Runtime) -> list[Path]:
    return sorted((agent.data_dir / "backups").glob("agent-*.db"))


def messages(path: Path) -> int:
    """How many there are in a sound database."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        return connection.execute("SELECT count(*) FROM chat_messages").fetchone()[0]


def follow_the_steps(said: str) -> None:
    """Carries out every command that the server has printed, in their order."""
    commands = [line.strip() for line in said.splitlines() if re.match(r"    \S", line)]
    assert commands
    for command in commands:
        subprocess.run(["bash", "-ec", command], check=True, timeout=60)


def test_from_outside_while_the_server_works(start: Start, provider: ScriptedProvider, tmp_path: Path) -> None:
    agent = start()
    provider.script.replace(lambda _: Say(pieces=("many ", "words ") * 50))
    counts: list[int] = []
    with ThreadPoolExecutor(4) as pool:
        work = [pool.submit(agent.chat, f"n {n}", session_id=fresh("s")) for n in range(40)]
        while not all(one.done() for one in work):
            made = back_up(agent.data_dir, tmp_path / f"copy-{len(counts)}.db")
            assert (made.returncode, made.stderr) == (0, "")
            assert made.stdout == f"{tmp_path}/copy-{len(counts)}.db\n"
            counts.append(messages(tmp_path / f"copy-{len(counts)}.db"))
        assert all(one.result().status_code == 200 for one in work)
    assert counts == sorted(counts)
    made = back_up(agent.data_dir)
    [path] = backups(agent)
    assert made.stdout == f"{path}\n"
    assert messages(path) == agent.sql("SELECT count(*) FROM chat_messages")[0][0] == 80
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    agent.still_works()


def test_what_cannot_be_made_is_refused_with_the_reason(start: Start, tmp_path: Path) -> None:
    nothing = back_up(tmp_path / "nobody")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr == (
        f"agent-runtime: no backup was made: there is no database at {tmp_path}/nobody/agent.db\n"
    )
    assert not (tmp_path / "nobody").exists()

    agent = start()
    own = agent.data_dir / "agent.db"
    over = back_up(agent.data_dir, own)
    assert over.returncode == 1
    assert f"{own} exists already" in over.stderr
    agent.still_works()


def test_the_server_makes_its_own_and_keeps_two(start: Start) -> None:
    agent = start(AGENT_BACKUP_MINUTES=0.002)
    seen: set[str] = set()

    def changed() -> bool:
        agent.chat("go on")
        seen.update(path.name for path in backups(agent))
        return len(seen) >= 4

    eventually(changed)
    agent.sigterm()
    assert agent.process.wait(10) == 0
    left = [path.name for path in (agent.data_dir / "backups").iterdir() if path.name != ".lock"]
    assert sorted(left) == [path.name for path in backups(agent)][-2:]
    assert all(messages(path) >= 2 for path in backups(agent))


def test_what_a_killed_server_left_half_done_goes_with_the_next_start(start: Start) -> None:
    agent = start()
    agent.process.kill9()
    draft = agent.data_dir / "backups" / ".agent-000001-20260101T000000Z.db.partial"
    draft.parent.mkdir(exist_ok=True)
    draft.write_bytes(b"half of a database")
    agent.start()
    eventually(lambda: not draft.exists())
    agent.still_works()


def test_a_damaged_database_names_its_backup_and_the_way_back(start: Start, provider: ScriptedProvider) -> None:
    agent = start()
    provider.script.replace(lambda _: Say("I will remember. " * 300))
    for number in range(12):
        agent.chat(f"remember {number}", session_id="lasting")
    done = agent.run()
    backup = Path(back_up(agent.data_dir).stdout.strip())
    agent.chat("remember this too", session_id="lasting")
    agent.process.kill9()
    database = agent.data_dir / "agent.db"
    with closing(sqlite3.connect(database)) as connection:  # the last to close writes the log into the file
        [found] = connection.execute("PRAGMA quick_check").fetchone()
    assert (found, list(agent.data_dir.glob("agent.db-*"))) == ("ok", [])
    with database.open("r+b") as file:
        file.seek(-4096, 2)
        file.write(b"\xff" * 4096)

    said = refused(agent.data_dir)
    assert f"the database {database} is damaged: " in said
    assert f"Its newest backup is {backup}" in said
    broken = database.read_bytes()
    assert refused(agent.data_dir).splitlines()[0] == said.splitlines()[0], "it stays so until it is mended"

    follow_the_steps(said)
    agent.start()
    [aside] = agent.data_dir.glob("damaged-*")
    assert (aside / "agent.db").read_bytes() == broken, "nothing was done to what may be needed yet"
    assert agent.result(done["task_id"]) == done
    agent.chat("what do you remember?", session_id="lasting")
    asked = str(provider.completions[-1].messages)
    assert all(f"remember {number}" in asked for number in range(12))
    assert "remember this too" not in asked
    agent.still_works()


def test_the_page_of_storage_leads_the_same_way(start: Start) -> None:
    agent = start()
    agent.chat("hello", session_id="lasting")
    backup = back_up(agent.data_dir).stdout.strip()
    assert agent.process.terminate() == 0  # what is only in the log would heal it
    (agent.data_dir / "agent.db").write_bytes(b"ruined")
    assert "is damaged" in refused(agent.data_dir)
    [steps] = [block for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL) if "mkdir" in block]
    env = {"AGENT_DATA_DIR": str(agent.data_dir), "BACKUP": backup, "PATH": "/usr/bin:/bin"}
    subprocess.run(["sh", "-ec", steps], env=env, check=True, timeout=60)
    agent.start()
    assert agent.sql("SELECT count(*) FROM chat_messages")[0][0] == 2
    agent.still_works()


def test_a_backup_copied_beside_an_old_log_is_not_mixed_with_it(start: Start) -> None:
    """The step that a tired operator forgets."""
    agent = start()
    agent.chat("hello", session_id="lasting")
    backup = Path(back_up(agent.data_dir).stdout.strip())
    for number in range(5):
        agent.chat(f"later {number}", session_id="lasting")
    agent.process.kill9()
    assert (agent.data_dir / "agent.db-wal").stat().st_size > 0
    (agent.data_dir / "agent.db").write_bytes(backup.read_bytes())
    said = refused(agent.data_dir)
    assert "is still beside it" in said
    follow_the_steps(said)
    agent.start()
    assert agent.sql("SELECT count(*) FROM chat_messages")[0][0] == 2
    agent.still_works()


def test_without_a_backup_it_says_so_and_can_begin_anew(start: Start) -> None:
    agent = start()
    agent.process.terminate()
    with (agent.data_dir / "agent.db").open("r+b") as file:
        file.truncate(3 * 4096)
    said = refused(agent.data_dir)
    assert "it was truncated: 12288 bytes of " in said
    assert "There is no backup of it" in said
    follow_the_steps(said)
    agent.start()
    agent.still_works()
