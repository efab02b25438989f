"""The units of systemd: what systemd itself says of them, and what host and bots rely on."""

from __future__ import annotations

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "images/systemd"
UNIT, BOTS = UNITS / "agent-host.service", UNITS / "agent-bots.service"


def verify(unit: Path, home: Path) -> str:
    """What systemd finds wrong with a unit of a user."""
    for name in ("agent", "agent-host"):
        program = home / ".local/bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    done = subprocess.run(
        ("systemd-analyze", "--user", "verify", unit),
        env={**os.environ, "HOME": str(home), "XDG_RUNTIME_DIR": str(home)},
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this machine has no systemd")
def test_systemd_takes_it_and_would_name_a_mistake(tmp_path: Path) -> None:
    assert verify(UNIT, tmp_path) == ""
    assert verify(BOTS, tmp_path) == ""
    wrong = tmp_path / UNIT.name
    wrong.write_text(UNIT.read_text().replace("KillMode=", "KillMod="))
    assert "Unknown key 'KillMod'" in verify(wrong, tmp_path)


def test_what_outlives_the_host_is_not_killed_with_it() -> None:
    unit = configparser.RawConfigParser()
    unit.read_string(UNIT.read_text())
    service = unit["Service"]
    assert service["ExecStart"].endswith("/agent-host up")
    assert (service["KillMode"], service["Restart"]) == ("process", "on-failure")


def test_bots_that_were_refused_are_not_started_again() -> None:
    unit = configparser.RawConfigParser()
    unit.read_string(BOTS.read_text())
    service = unit["Service"]
    assert service["ExecStart"].endswith("/agent bots")
    assert (service["Restart"], service["UMask"]) == ("on-abnormal", "0077")
