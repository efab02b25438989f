"""The steps of docs/how-to/bots.md from nothing to an approval, run as the page has them; Telegram is a double."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_testing import FakeTelegram, LiveProcess
from agent_testing.telegram import Message, User

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[3] / "docs/how-to/bots.md").read_text("utf-8")
SECONDS = 60.0


def blocks(language: str) -> list[str]:
    section = PAGE.partition("## From nothing to an approval on the phone")[2].partition("\n## ")[0]
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", section)


def said(telegram: FakeTelegram, ann: User, part: str) -> Message:
    """Wait for a message of the bot that has this in it."""
    found = telegram.wait_for(lambda: next((one for one in ann.chat.replies if part in one.text), None), SECONDS)
    assert found is not None
    return found


def test_the_page_leads_to_an_approval(tmp_path: Path) -> None:
    commands = Path(sys.executable).parent
    environment = {"HOME": str(tmp_path), "PATH": f"{commands}:{os.environ['PATH']}"}

    def run(command: str) -> None:
        env = {**os.environ, **environment}
        subprocess.run(["bash", "-c", command], env=env, cwd=tmp_path, timeout=60, check=True)

    with FakeTelegram() as telegram:
        script = "".join(blocks("sh")).replace("TELEGRAM_BOT_TOKEN=...", f"TELEGRAM_BOT_TOKEN={telegram.token}")
        *steps, last = script.rstrip().split("\n")
        argv = ["bash", "-c", "\n".join(["set -e", *steps, f"exec {last}"])]
        given = {**environment, "TELEGRAM_BASE_URL": telegram.url}
        ann = telegram.create_user("Ann")
        try:
            with LiveProcess(argv, given, cwd=tmp_path) as bots:
                bots.wait_for_output("bot connected", SECONDS)
                ann.write(ann.chat, "hello")
                code = re.search(r"agent bots pair \w+", said(telegram, ann, "agent bots pair").text)
                assert code is not None
                run(code[0])
                said(telegram, ann, "You are paired")
                ann.write(ann.chat, blocks("text")[0].strip())
                ann.press(said(telegram, ann, "Allow bash?"), "✅ Once", seconds=SECONDS)
                said(telegram, ann, "Allowed once by Ann")
                said(telegram, ann, "ended with 0")
        finally:
            run("agent down")
    assert not (tmp_path / "writer/old.txt").exists()
