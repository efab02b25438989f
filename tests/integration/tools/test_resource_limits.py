"""What a command may use up in all: memory, sessions, and the room in its folders."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import psutil
import pytest

from agent_runtime.sandbox import Confinement, Quota, SandboxLimits, SandboxSpec, choose_confinement

from ..conftest import Hold
from .conftest import House, furnish

MiB = 2**20


@pytest.fixture(params=["auto", "off"])
async def confinement(request: pytest.FixtureRequest, tmp_path: Path, hold: Hold) -> Confinement:
    return await (hold(tmp_path) if request.param == "auto" else choose_confinement("off", tmp_path))


@pytest.fixture
def work(tmp_path: Path, confinement: Confinement) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    if confinement.uid is not None:
        os.chown(work, confinement.uid, confinement.uid)
    return work


def size(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*"))


def bash(command: str) -> tuple[str, ...]:
    return ("bash", "-c", command)


# ---------------------------------------------------------------- memory and processes

HOARD = "x = b'x' * (60 * 2**20); import time; print('full', flush=True); time.sleep(64211)"


async def test_processes_that_use_too_much_memory_together_are_ended(confinement: Confinement, work: Path) -> None:
    command = f'for i in 1 2 3 4 5; do python3 -c "{HOARD}" & done; wait'
    box = SandboxSpec(work, (work,), limits=SandboxLimits(total_memory=200 * MiB))
    done = await confinement.run(bash(command), box, timeout=60)
    assert done.stopped == "its processes used more than 0.2 GiB of memory together"
    assert (done.exit_code, done.timed_out) == (None, False)
    assert not [one for one in psutil.process_iter(["cmdline"]) if HOARD in (one.info["cmdline"] or [])]


FORKS = """
import os
x = b"x" * (80 * 2**20)
for _ in range(6):
    if os.fork() == 0:
        __import__("time").sleep(0.5); os._exit(0)
for _ in range(6):
    os.wait()
print("all of them")
"""


async def test_memory_that_processes_share_counts_once(confinement: Confinement, work: Path) -> None:
    box = SandboxSpec(work, (work,), limits=SandboxLimits(total_memory=300 * MiB))
    done = await confinement.run(("python3", "-c", FORKS), box, timeout=60)
    assert (done.stdout, done.stopped) == ("all of them\n", None), done


async def test_sessions_are_bounded(confinement: Confinement, work: Path) -> None:
    """Each is a share of the processor of its own where the kernel schedules by session."""
    many = "for i in $(seq {}); do setsid sleep 0.5 & done; wait; echo all"
    box = SandboxSpec(work, (work,), limits=SandboxLimits(sessions=20))
    done = await confinement.run(bash(many.format(18)), box, timeout=60)
    assert (done.stdout, done.stopped) == ("all\n", None), done
    done = await confinement.run(bash(f"while :; do {many.format(25)}; done"), box, timeout=60)
    assert done.stopped == "it opened more than 20 sessions of processes"


async def test_commands_stand_behind_the_server(confinement: Confinement, work: Path) -> None:
    done = await confinement.run(("nice",), SandboxSpec(work, (work,)), timeout=60)
    assert done.stdout == "19\n"
    lift = "import os\ntry: os.setpriority(os.PRIO_PROCESS, 0, 0)\nexcept PermissionError: print('no')"
    done = await confinement.run(("python3", "-c", lift), SandboxSpec(work, (work,)), timeout=60)
    assert done.stdout == ("no\n" if confinement.name != "off" or os.geteuid() else "")


# ---------------------------------------------------------------- folders


@pytest.fixture
def box(work: Path) -> SandboxSpec:
    return SandboxSpec(work, (work,), quotas=(Quota(work, 40 * MiB, 1000, "the workspace"),))


async def test_a_command_that_fills_a_folder_is_ended(confinement: Confinement, box: SandboxSpec) -> None:
    fill = "echo begun; i=0; while :; do head -c 20M /dev/zero > f$i; i=$((i+1)); done"
    done = await confinement.run(bash(fill), box, timeout=60)
    assert done.stopped is not None
    assert done.stopped.startswith("the workspace holds ")
    assert done.stopped.endswith(" MiB, and 40 MiB is the most it may hold")
    assert done.stdout == "begun\n"
    assert size(box.workdir) < 400 * MiB


async def test_a_command_that_is_over_before_anybody_looks_is_told_what_it_did(
    confinement: Confinement, work: Path
) -> None:
    small = SandboxSpec(work, (work,), quotas=(Quota(work, 4 * MiB, 1000, "the workspace"),))
    done = await confinement.run(bash("for i in {1..8}; do head -c 4M /dev/zero > f$i; done"), small, timeout=60)
    assert "and 4 MiB is the most it may hold" in (done.stopped or done.notice or "")


async def test_many_empty_files_fill_a_folder_as_well(confinement: Confinement, box: SandboxSpec) -> None:
    done = await confinement.run(bash("i=0; while :; do : > f$((i++)); done"), box, timeout=60)
    assert done.stopped is not None
    assert "files, and 1000 is the most it may hold" in done.stopped


async def test_one_file_cannot_be_larger_than_the_quota(confinement: Confinement, box: SandboxSpec) -> None:
    await confinement.run(bash("head -c 500M /dev/zero > f"), box, timeout=60)
    assert size(box.workdir) <= 40 * MiB


HIDE = """
import os, time
piece, kept = bytes(2**20), 0
for number in range(100):
    file = os.open("f", os.O_CREAT | os.O_WRONLY)
    os.unlink("f")
    for _ in range(20):
        os.write(file, piece)
    kept += 20
    print(kept, flush=True)
    time.sleep(0.03)
"""


@pytest.mark.slow
async def test_files_that_are_deleted_and_kept_open_count_as_well(confinement: Confinement, box: SandboxSpec) -> None:
    done = await confinement.run(("python3", "-c", HIDE), box, timeout=60)
    if not done.stopped:  # whoever frees as much on the machine meanwhile hides it
        done = await confinement.run(("python3", "-c", HIDE), box, timeout=60)
    assert done.stopped is not None
    assert done.stopped.startswith("files that it deleted but keeps open take ")
    assert int(done.stdout.split()[-1]) < 1200


@pytest.mark.slow
async def test_room_that_others_take_is_not_laid_to_a_command_s_charge(
    confinement: Confinement, box: SandboxSpec, tmp_path: Path
) -> None:
    running = asyncio.create_task(confinement.run(bash("echo x > f; sleep 2; echo ok"), box, timeout=60))
    with (tmp_path / "of-others").open("wb") as file:
        for _ in range(40):
            await asyncio.to_thread(file.write, bytes(10 * MiB))
    assert (await running).stdout == "ok\n"
    os.unlink(tmp_path / "of-others")


@pytest.mark.slow
async def test_small_steps_are_noticed_too(confinement: Confinement, box: SandboxSpec) -> None:
    """Each command is over before anybody looks."""
    for number in range(20):
        await confinement.run(bash(f"head -c 5M /dev/zero > f{number}"), box, timeout=60)
    assert size(box.workdir) <= 60 * MiB


async def test_a_full_folder_lets_a_command_delete_and_nothing_else(confinement: Confinement, box: SandboxSpec) -> None:
    for number in range(10):
        (box.workdir / f"f{number}").write_bytes(b"x" * 5 * MiB)
    done = await confinement.run(bash("echo x > y; head -c 9M /dev/zero > z; :"), box, timeout=60)
    assert done.notice == (
        "the workspace holds 50 MiB, and 40 MiB is the most it may hold. Until enough is deleted nothing can be written"
    )
    assert size(box.workdir) <= 51 * MiB
    done = await confinement.run(bash("rm f1 f2 f3; sleep 0.3; echo deleted"), box, timeout=60)
    assert (done.stdout, done.exit_code, done.stopped) == ("deleted\n", 0, None)
    done = await confinement.run(bash("echo room > y; cat y"), box, timeout=60)
    assert (done.stdout, done.notice) == ("room\n", None)


async def test_what_lies_behind_a_link_does_not_count(
    confinement: Confinement, box: SandboxSpec, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "big").write_bytes(b"x" * 60 * MiB)
    done = await confinement.run(bash(f"ln -s {outside} link; ln -s {outside}/big file; echo ok > f"), box, timeout=60)
    assert (done.stopped, done.exit_code) == (None, 0)
    assert (await confinement.run(bash("echo ok > f"), box, timeout=60)).notice is None


@pytest.mark.slow
async def test_a_tree_of_any_depth_can_be_measured(confinement: Confinement, box: SandboxSpec) -> None:
    deep = "import os\nfor _ in range(900): os.mkdir('d'); os.chdir('d')\nopen('f', 'w').write('x' * 45 * 2**20)"
    await confinement.run(("python3", "-c", deep.replace("45", "39")), box, timeout=60)
    done = await confinement.run(bash("head -c 5M /dev/zero > f; sleep 0.5"), box, timeout=60)
    assert done.stopped or (await confinement.run(("true",), box, timeout=60)).notice
    await confinement.run(bash("rm -rf d"), box, timeout=60)


@pytest.mark.slow
async def test_a_bomb_in_a_zip_goes_off_in_scratch_and_nowhere_else(house: House) -> None:
    limits = SandboxLimits(processes=100, scratch=50 * MiB)
    house = furnish(house.home, house.confinement, limits=limits)
    pack = "import zipfile\nwith zipfile.ZipFile('bomb.zip', 'w', 8) as z:\n"
    pack += " for n in range(40): z.writestr(f'{n}', bytes(2**24))"
    await house.python(pack)
    result = await house.call("bash", command="cd $SCRATCH && python3 -m zipfile -e $WORKSPACE/bomb.zip .")
    assert "the scratch folder holds" in str(result.data), result.data
    assert result.data["exit_code"] is None
    assert size(house.context.scratch) < 400 * MiB

    result = await house.call("write", path=f"{house.context.scratch}/more", content="x")
    assert result.type == "error"
    assert "there is no room for 1 bytes: the scratch folder holds" in (result.error_text or "")
    result = await house.call("write", path="notes", content="the workspace has room")
    assert result.type == "output"
    assert "notice" in (await house.call("bash", command="rm -r $SCRATCH/*")).data
    assert (await house.call("write", path=f"{house.context.scratch}/more", content="x")).type == "output"


async def test_two_commands_that_share_a_folder_share_its_quota(confinement: Confinement, box: SandboxSpec) -> None:
    fill = "i=0; while [ $i -lt 15 ]; do head -c 5M /dev/zero > {}$i; i=$((i+1)); sleep 0.05; done; sleep 0.5"
    ended = await asyncio.gather(*(confinement.run(bash(fill.format(name)), box, timeout=60) for name in "ab"))
    assert all(done.stopped for done in ended)
    assert size(box.workdir) < 120 * MiB
