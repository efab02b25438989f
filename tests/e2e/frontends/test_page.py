"""The steps of docs/how-to/bots.md from nothing to an approval, run as the page has them; the platform is a double."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_testing import FakeTelegram, LiveProcess
from agent_testing.discord import FakeDiscord

pytestmark = pytest.mark.slow

PAGE = (Path(__file__).parents[3] / "docs/how-to/bots.md").read_text("utf-8")
SECONDS = 60.0


@dataclass(frozen=True)
class Phone:
    """A person with a private chat with the bot."""

    platform: Any
    person: Any
    environment: dict[str, str]

    def wait_for_the_bot(self) -> None:
        """Discord gives a bot nothing that a stranger has written before its gateway was open."""
        if isinstance(self.platform, FakeDiscord):
            self.platform.wait_for_session(seconds=SECONDS)

    def write(self, text: str) -> None:
        self.person.write(self.chat, text)

    def said(self, part: str) -> Any:
        """Wait for a message of the bot that has this in it."""
        return self.platform.wait_for(
            lambda: next(filter(lambda one: part in text_of(one), self.messages), None), SECONDS
        )

    @property
    def chat(self) -> Any:
        return self.person.chat if isinstance(self.platform, FakeTelegram) else self.person.dm()

    @property
    def messages(self) -> list[Any]:
        if isinstance(self.platform, FakeTelegram):
            return self.chat.replies
        return [one for one in self.chat.messages if one.author.is_bot]


def text_of(message: Any) -> str:
    return getattr(message, "text", None) or getattr(message, "content", "")


@contextmanager
def telegram() -> Generator[Phone]:
    with FakeTelegram() as platform:
        access = {"TELEGRAM_BOT_TOKEN": platform.token, "TELEGRAM_BASE_URL": platform.url}
        yield Phone(platform, platform.create_user("Ann"), access)


@contextmanager
def discord() -> Generator[Phone]:
    with FakeDiscord(token="token-of-the-bot") as platform:
        access = {"DISCORD_BOT_TOKEN": "token-of-the-bot", "DISCORD_BASE_URL": platform.url}
        yield Phone(platform, platform.user("Ann"), access)


def blocks(language: str) -> list[str]:
    section = PAGE.partition("## From nothing to an approval on the phone")[2].partition("\n## ")[0]
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", section)


@pytest.mark.parametrize("platform", [telegram, discord])
def test_the_page_leads_to_an_approval(tmp_path: Path, platform: Any) -> None:
    commands = Path(sys.executable).parent
    environment = {"HOME": str(tmp_path), "PATH": f"{commands}:{os.environ['PATH']}"}

    def run(command: str) -> None:
        env = {**os.environ, **environment}
        subprocess.run(["bash", "-c", command], env=env, cwd=tmp_path, timeout=60, check=True)

    with platform() as phone:
        script = "".join(blocks("sh"))
        assert "TELEGRAM_BOT_TOKEN=... " in script
        *steps, last = script.replace("TELEGRAM_BOT_TOKEN=... ", "").rstrip().split("\n")
        argv = ["bash", "-c", "\n".join(["set -e", *steps, f"exec {last}"])]
        try:
            with LiveProcess(argv, {**environment, **phone.environment}, cwd=tmp_path) as bots:
                bots.wait_for_output("bot connected", SECONDS)
                phone.wait_for_the_bot()
                phone.write("hello")
                code = re.search(r"agent bots pair \w+", text_of(phone.said("agent bots pair")))
                assert code is not None
                run(code[0])
                phone.said("You are paired")
                phone.write(blocks("text")[0].strip())
                phone.person.press(phone.said("Allow bash?"), "✅ Once")
                phone.said("Allowed once by Ann")
                phone.said("ended with 0")
        finally:
            run("agent down")
    assert (tmp_path / "phone").is_dir()
    assert not (tmp_path / "phone/old.txt").exists()
