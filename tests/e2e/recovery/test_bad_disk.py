"""A disk that fills up under a server at work, and clocks that jump between two lives."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from agent_runtime.workspace.home import SPARES
from agent_testing import Call, Hang, Say, ScriptedProvider

from ..conftest import Start
from ..live import PATIENCE, Runtime, assert_problem, assert_well_formed, assignment, in_background, text_of, types
from ..server.test_start import refused
from .test_backup import back_up, messages

pytestmark = pytest.mark.slow


@contextmanager
def small_disk(folder: Path, megabytes: int = 16, files: int = 0) -> Generator[Path]:
    """A small file system, with room for so many files. It takes root to mount one, which the build server is."""
    if os.geteuid() != 0:
        pytest.skip("a small disk of its own can only be mounted by root")
    folder.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,nr_inodes={files}", "tmpfs", folder], check=True, timeout=10
    )
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True, timeout=60)


def fill(folder: Path) -> Path:
    """Takes all the room there is left on a disk."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def exhaust(folder: Path) -> Path:
    """Takes the database's reserve as well."""
    for reserve in folder.rglob("*.reserve"):
        reserve.unlink()
    return fill(folder)


def test_a_disk_that_fills_up_in_a_turn_and_has_room_again(provider: ScriptedProvider, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, Runtime(provider, disk / "data", AGENT_CONFINEMENT="off") as agent:
        provider.script.replace([
            Say("this is kept"),
            Hang(after=1, reply=Say(pieces=("it begins ", *("x" * 20_000 for _ in range(400))))),
        ])  # fmt: skip
        kept = agent.run()
        with agent.stream("POST", "/chat/stream", {"message": "tell me much", "session_id": "s"}) as stream:
            stream.until("text-delta")
            ballast = exhaust(disk)
            provider.release()
            told = stream.rest()
        assert_well_formed(told)
        assert "error" in types(told)
        assert text_of(told).startswith("it begins ")

        asked = len(provider.completions)
        new = {"message": "y" * 500_000, "session_id": "s", "message_id": "new"}
        assert_problem(agent.post("/chat", new), 503, "store_unavailable")
        body = assignment(input_data={"text": "y" * 500_000})
        assert_problem(agent.post("/task", body), 503, "store_unavailable")
        assert len(provider.completions) == asked, "nothing runs that is not on disk"
        assert agent.result(kept["task_id"]) == kept
        assert agent.get("/healthz").status_code == 200
        assert agent.status()["state"] == "idle"

        ballast.unlink()
        provider.script.replace(lambda _: Say("room again"))
        assert agent.post("/chat", new).json()["response"] == "room again"
        agent.post("/task", body)
        assert agent.result(body["task_id"])["result"] == {"text": "room again"}
        assert agent.result(kept["task_id"]) == kept
        assert [row[0] for row in agent.sql("PRAGMA integrity_check")] == ["ok"]
        agent.still_works()
        agent.sigterm()
        assert agent.process.wait(15) == 0
        agent.start()
        assert agent.result(kept["task_id"]) == kept
        agent.still_works()


@pytest.mark.parametrize(
    "command",
    ["head -c 200M /dev/zero > big", "for n in 1 2 3 4 5 6 7 8; do head -c 200M /dev/zero > big$n & done; wait"],
    ids=["one file", "many at once"],
)
def test_a_command_that_fills_the_disk_leaves_an_agent_that_can_clean_up(
    provider: ScriptedProvider, tmp_path: Path, command: str
) -> None:
    with small_disk(tmp_path / "disk", 48) as disk, Runtime(provider, disk / "data") as agent:
        provider.script.replace([Call("bash", {"command": command}), Say("it is full")])
        assert agent.chat("fill the disk").json()["response"] == "it is full"
        provider.script.replace([Call("bash", {"command": "rm -f big*"}), Say("it is empty")])
        assert agent.chat("make room").json()["response"] == "it is empty"
        assert not list((agent.data_dir / "workspace").glob("big*"))
        assert agent.get("/readyz").json() == {"ready": True, "reasons": []}
        provider.script.replace([Call("bash", {"command": "head -c 20M /dev/zero > fits; ls fits"}), Say("done")])
        assert agent.chat("write again").json()["tool_outputs"][0]["output"]["data"]["stdout"] == "fits\n"


def make_files(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / str(number)).touch()


def test_a_command_that_makes_more_files_than_the_disk_has_room_for_leaves_an_agent_at_work(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    many = "mkdir many; cd many; for n in $(seq 1400); do touch $n; sleep 0.002; done"
    with small_disk(tmp_path / "disk", 64, files=8000) as disk, Runtime(provider, disk / "data") as agent:
        make_files(disk / "others", os.statvfs(disk).f_ffree - 1300)
        provider.script.replace([Call("bash", {"command": many}), Say("it is full")])
        [output] = agent.chat("make files").json()["tool_outputs"]
        assert "almost no room for more files" in output["output"]["data"]["stopped"]
        provider.script.replace([Call("bash", {"command": "echo new"}), Say("at work")])
        [output] = agent.chat("hello", session_id="new").json()["tool_outputs"]
        assert output["output"]["data"]["stdout"] == "new\n"
        provider.script.replace([Call("bash", {"command": "rm -rf many"}), Say("it is empty")])
        assert agent.chat("make room").json()["response"] == "it is empty"
        provider.script.replace([Call("bash", {"command": "touch one && ls one"}), Say("done")])
        [output] = agent.chat("and now", session_id="new").json()["tool_outputs"]
        assert output["output"]["data"]["stdout"] == "one\n"
        assert agent.get("/readyz").json() == {"ready": True, "reasons": []}


def test_a_disk_without_room_for_files_is_told(provider: ScriptedProvider, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 64, files=3000) as disk, Runtime(provider, disk / "data") as agent:
        full = disk / "full"
        with suppress(OSError):
            make_files(full, 3000)
        assert agent.get("/readyz").json() == {"ready": False, "reasons": ["disk"]}
        for number in range(SPARES):
            provider.script.replace([Call("bash", {"command": "echo new"}), Say("at work")])
            [output] = agent.chat("hello", session_id=f"new-{number}").json()["tool_outputs"]
            assert output["output"]["data"]["stdout"] == "new\n"
        provider.script.replace([Call("bash", {"command": "echo new"}), Say("at work")])
        assert_problem(agent.chat("hello", session_id="new"), 500, "store_unavailable")
        shutil.rmtree(full)
        provider.script.replace([Call("bash", {"command": "echo new"}), Say("at work")])
        assert agent.chat("hello again", session_id="new").json()["response"] == "at work"
        assert agent.get("/readyz").json() == {"ready": True, "reasons": []}


def test_a_full_disk_is_told_and_a_reserve_keeps_the_agent_at_work(provider: ScriptedProvider, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 48) as disk, Runtime(provider, disk / "data") as agent:
        provider.script.replace(lambda _: Say("at work"))
        assert agent.get("/readyz").status_code == 200
        ballast = fill(disk)
        told = agent.get("/readyz")
        assert (told.status_code, told.json()) == (503, {"ready": False, "reasons": ["disk"]})
        for _ in range(3):
            assert agent.chat("hello").json()["response"] == "at work"
        agent.process.kill9()
        agent.start()
        assert agent.chat("hello again").json()["response"] == "at work"
        ballast.unlink()
        assert agent.get("/readyz").status_code == 200
        assert agent.chat("and again").json()["response"] == "at work"
        assert (agent.data_dir / "agent.db.reserve").stat().st_blocks > 0, "the next time is provided for"


def test_a_turn_waits_a_moment_for_room_to_record_its_end(provider: ScriptedProvider, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk, Runtime(provider, disk / "data", AGENT_CONFINEMENT="off") as agent:
        long = {"message": "tell me much", "session_id": "s", "message_id": "long"}
        pieces = ("it begins ", *("x" * 20_000 for _ in range(100)))
        provider.script.replace([Hang(after=1, reply=Say(pieces=pieces))])
        with agent.stream("POST", "/chat/stream", long) as stream:
            stream.until("text-delta")
            ballast = exhaust(disk)
            provider.release()
            reading, told = in_background(stream.rest)
            agent.process.wait_for_output("the end of a turn could not be recorded yet", PATIENCE)
            ballast.unlink()
            reading.join(PATIENCE)
        assert types(told[0])[-1] == "finish"
        assert "error" not in types(told[0])
        assert text_of(told[0]) == "".join(pieces)
        [part] = [part for part in agent.parts(agent_session(agent, "s")) if part["type"] == "text"]
        assert part == {"type": "text", "text": "".join(pieces), "state": "done"}
        assert agent.post("/chat", long).json()["response"] == "".join(pieces)
        agent.still_works()


def test_a_start_on_a_full_disk_says_so_and_the_next_one_finds_everything(
    provider: ScriptedProvider, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk") as disk:
        agent = Runtime(provider, disk / "data", AGENT_CONFINEMENT="off")
        provider.script.replace([Say("kept"), Hang()])
        with agent:
            kept = agent.run()
            waiting = agent.assign()
            provider.wait_for(2)
            agent.process.kill9()
            ballast = exhaust(disk)
            said = refused(agent.data_dir, AGENT_CONFINEMENT="off")
            assert "full" in said or "disk I/O error" in said
            assert "damaged" not in said
            ballast.unlink()
            agent.start()
            assert agent.result(kept["task_id"]) == kept
            assert agent.result(waiting)["status"] in ("failed", "complete")
            agent.still_works()


def test_a_backup_never_takes_the_last_room(provider: ScriptedProvider, tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk") as disk,
        Runtime(provider, disk / "data", AGENT_CONFINEMENT="off", AGENT_BACKUP_MINUTES=0.001) as agent,
    ):
        agent.run()
        agent.process.wait_for_output("backup failed.* bytes free", PATIENCE)
        made = back_up(agent.data_dir)
        assert made.returncode == 1
        assert "bytes free" in made.stderr
        agent.still_works()
        elsewhere = back_up(agent.data_dir, tmp_path / "elsewhere.db")
        assert elsewhere.returncode == 0, elsewhere.stderr
        assert messages(tmp_path / "elsewhere.db") == 4


# ---------------------------------------------------------------- clocks that jump

HOUR, DAY = 3_600_000, 86_400_000


def shift(data_dir: Path, by: int) -> None:
    """Makes all that is stored that much younger, as if the clock had gone back meanwhile, or older."""
    times = {
        "chat_sessions": ("created_at", "updated_at"),
        "chat_messages": ("created_at", "updated_at"),
        "chat_parts": ("created_at", "updated_at"),
        "turns": ("created_at", "updated_at"),
        "tasks": ("finished_at",),
    }
    with closing(sqlite3.connect(data_dir / "agent.db")) as connection:
        for table, columns in times.items():
            for column in columns:
                connection.execute(f"UPDATE {table} SET {column} = {column} + ?", (by,))  # noqa: S608
        for key in ("created_at", "started_at", "finished_at"):
            path = f"$.{key}"
            connection.execute(
                "UPDATE tasks SET record_json = json_set(record_json, ?, json_extract(record_json, ?) + ?)",
                (path, path, by),
            )
        connection.commit()


@pytest.mark.parametrize("by", [HOUR, -DAY], ids=["an hour back", "a day on"])
def test_a_clock_that_jumps_between_two_lives(start: Start, provider: ScriptedProvider, by: int) -> None:
    agent = start(AGENT_MAX_CONCURRENT_TURNS=1)
    said = [f"before {n}" for n in range(3)]
    for text in said:
        agent.chat(text, session_id="lasting")
    old = agent.run()
    provider.script.replace([Hang()])
    running = agent.assign()
    provider.wait_for(5)
    queued = [agent.assign(input_data={"n": n}) for n in range(4)]
    agent.process.kill9()
    shift(agent.data_dir, by)
    with closing(sqlite3.connect(agent.data_dir / "agent.db")) as connection:  # and it went back while they queued
        connection.execute("UPDATE turns SET created_at = created_at - 1000 * seq WHERE state = 'queued'")
        connection.commit()
    provider.clear()
    provider.script.replace(lambda _: Say("ok"))
    agent.start()

    for task_id in queued:
        assert agent.result(task_id)["status"] == "complete"
    assert agent.result(old["task_id"]) == old
    record = agent.record(running)
    assert record["finished_at"] is not None
    assert record["duration_ms"] >= 0
    order = [request.last_user_text for request in provider.completions]
    numbers = [n for text in order for n in range(4) if f'"n": {n}' in text]
    assert numbers == [0, 1, 2, 3]

    for text in ("after 0", "after 1"):
        agent.chat(text, session_id="lasting")
        said.append(text)
    users = [part["text"] for part in agent.parts(agent_session(agent, "lasting"), "user")]
    assert users == said
    heard = [m["content"] for m in provider.completions[-1].messages if m["role"] == "user"]
    assert [text for text in said if text in str(heard)] == said
    agent.process.kill9()
    agent.start()
    agent.chat("last", session_id="lasting")
    heard = str([m["content"] for m in provider.completions[-1].messages if m["role"] == "user"])
    places = [heard.index(text) for text in (*said, "last")]
    assert places == sorted(places)
    agent.still_works()


def agent_session(agent: Runtime, alias: str) -> str:
    return agent.sql("SELECT session_id FROM session_aliases WHERE alias = ?", alias)[0]["session_id"]
