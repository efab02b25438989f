"""The page of the bots says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from frontends.bots import chats, host_token, intake, receiving, strangers
from frontends.people import codes, pairing
from frontends.settings import load_settings
from frontends.settings.bots_file import BotEntry, BotsFile
from frontends.settings.loading import MAX_NOTICES

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/how-to/bots.md").read_text("utf-8")


def block(language: str, part: str = "") -> str:
    """The first block that has this in it."""
    return next(one for one in re.findall(rf"(?ms)^```{language}\n(.*?)^```", PAGE) if part in one)


def test_the_file_of_the_page_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bots-token", "telegram-token", "discord-token"):
        (tmp_path / name).write_text(name)
    (tmp_path / "bots.yaml").write_text(block("yaml"))
    monkeypatch.setenv("AGENT_BOTS", str(tmp_path / "bots.yaml"))
    home, work = load_settings().bots
    assert (home.people, work.approvers) == ({"telegram:123456"}, {"telegram:123456"})
    assert set(yaml.safe_load(block("yaml"))) == {"mesh", "bots", "notices"}


def test_every_key_is_in_the_table() -> None:
    table = PAGE.partition("| key |")[2].partition("\n\n")[0]
    keys = set(re.findall(r"`(?:bots\[\]\.)?(\w+)`", " ".join(re.findall(r"(?m)^\| (.*?) \|", table))))
    assert keys == (set(BotsFile.model_fields) - {"bots"}) | set(BotEntry.model_fields)


def test_the_message_to_a_stranger_is_that_of_the_page() -> None:
    shown = block("text", "agent bots pair")
    code = re.search(r"agent bots pair (\w+)", shown)
    assert code is not None
    assert codes.normalized(code[1]) == code[1]
    assert strangers.INTRODUCTION.format(code=code[1]).replace("```\n", "").split() == shown.split()


def test_the_limits_are_those_of_the_code() -> None:
    table = PAGE.partition("| limit |")[2].partition("\n\n")[0]
    numbers = [int(number) for number in re.findall(r"\| (\d+)", table)]
    assert numbers == [
        codes.LENGTH,
        pairing.MAX_CODES,
        pairing.MAX_WRONG_CODES,
        intake.MAX_WAITING,
        chats.MAX_AT_ONCE,
    ]
    assert (pairing.CODE_LIFETIME_MS, pairing.WRONG_CODE_MS) == (3_600_000, 3_600_000)
    assert (strangers.ANSWER_SECONDS, chats.ATTEMPTS) == (60, 3)
    assert f"at most {MAX_NOTICES} URLs" in PAGE


@pytest.mark.parametrize("line", re.findall(r"(?m)^\| `([a-z ]*(?:bot|host|update)[a-z :']*)` \|", PAGE))
def test_the_log_has_the_lines_of_the_page(line: str) -> None:
    modules = (chats, host_token, receiving)
    assert any(line in Path(module.__file__ or "").read_text("utf-8") for module in modules)
