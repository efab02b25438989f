"""The process of the bots: pairing by another process, kill -9, two copies, signals, what its log shows."""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from .live import TOKEN, Bots, eventually

MAX_MIB = 60
"""Of a process without the libraries of the platforms."""


@pytest.fixture
def bots(tmp_path: Path) -> Iterator[Bots]:
    bots = Bots(tmp_path, people=(1, 2, 3, 4))
    yield bots
    if bots.process is not None and bots.process.poll() is None:
        bots.process.kill()
        bots.process.wait()


def test_from_a_strangers_message_to_an_answer(bots: Bots) -> None:
    process = bots.start()
    bots.write(9)
    eventually(lambda: bots.sent(9))
    code = re.search(r"(?m)^agent bots pair (\S+)$", bots.sent(9)[0])
    assert code is not None
    wrong = bots.command("pair", "2222-2222")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith("agent bots: no stranger has this code now")
    paired = bots.command("pair", code[1])
    assert (paired.returncode, paired.stdout) == (0, "telegram:9 may use the bot home\n"), paired.stderr
    eventually(lambda: len(bots.sent(9)) == 2)
    assert bots.sent(9)[1].startswith("You are paired")
    bots.write(9)
    eventually(lambda: bots.effects() == [(2, "telegram:9")])
    assert "telegram:9\ttelegram:9\thome\n" in bots.command("people").stdout
    assert psutil.Process(process.pid).memory_info().rss / 2**20 < MAX_MIB

    gone = bots.command("unpair", "telegram:9")
    assert (gone.returncode, gone.stdout) == (0, "telegram:9 may use no bot\n")
    bots.write(9, 1)
    eventually(lambda: bots.effects()[1:] == [(4, "telegram:1")])
    assert "is in bots.yaml" in bots.command("unpair", "telegram:1").stderr

    second = bots.start()
    assert second.wait(30) == 1
    assert f"another `agent bots` uses this folder, process {process.pid}" in bots.log()
    bots.process = process
    begin = time.monotonic()
    assert bots.stop() == 0
    assert time.monotonic() - begin < 5
    for secret in (TOKEN, "secret-of-mesh"):
        assert secret not in bots.log()
    assert "POST https://platform/bot[redacted]/getMe" in bots.log()


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, 40])
def test_every_update_has_one_effect_over_kill_9(bots: Bots, kills: int) -> None:
    chance = random.Random(kills)
    for round in range(1, kills + 1):
        bots.start()
        bots.write(*(chance.choice((1, 2, 3, 4)) for _ in range(20)))
        done = 20 * (round - 1) + chance.randrange(1, 20)
        eventually(lambda done=done: len(bots.effects()) >= done)
        bots.stop(signal.SIGKILL)
    bots.start()
    bots.write(1)  # so that the last process has done something when it is stopped
    eventually(lambda: len(bots.effects()) > 20 * kills)
    assert bots.stop(signal.SIGINT) == 0
    effects = bots.effects()
    assert sorted(id for id, _ in effects) == [*range(1, 20 * kills + 2)]
    for person in {person for _, person in effects}:
        ids = [id for id, other in effects if other == person]
        assert ids == sorted(ids), "in order within a chat"


def test_the_refusal_of_the_only_bot_ends_the_process(bots: Bots) -> None:
    (bots.folder / "refused").touch()
    assert bots.start().wait(30) == 1
    assert "bot ended: the platform does not accept its token" in bots.log()
    assert TOKEN not in bots.log()
