"""Who writes far more than others, and models that write far too much: everyone else is answered within two seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from agent_testing import Say

from .world import DEN, HOME, World

pytestmark = [pytest.mark.slow, pytest.mark.machine]

MAX_SECONDS = 2.0
PROBES = 5
MAX_WAITING, MAX_CODES = 20, 100


def slowest_answer(world: World, ask: Callable[[World], None] | None = None) -> float:
    """Return the longest time until somebody who writes for the first time is answered."""
    measured: list[float] = []
    for _ in range(PROBES):
        begin = time.monotonic()
        (ask or on_telegram)(world)
        measured.append(time.monotonic() - begin)
    return max(measured)


def on_telegram(world: World) -> None:
    ann = world.person("Ann")
    asked = ann.write(ann.chat, "hello from ann")
    world.reply(ann.chat, "well said", after=asked.id)


def on_discord(world: World) -> None:
    ann = world.member("ann")
    asked = ann.write(ann.dm(), "hello from ann")
    world.discord_reply(ann.dm(), "well said", after=asked.id)


def waiting(world: World, bot: str, sender: str) -> object:
    """How many messages of somebody wait."""
    query = "SELECT COUNT(*) FROM updates WHERE bot = ? AND sender = ? AND finished_at IS NULL"
    [[count]] = world.rows(query, bot, sender)
    return count


def test_a_flood_of_one_person(world: World) -> None:
    eve = world.person("Eve")
    for number in range(400):
        eve.write(eve.chat, f"flood {number}")
    assert slowest_answer(world) < MAX_SECONDS
    assert waiting(world, HOME, f"telegram:{eve.id}") in range(MAX_WAITING + 1)
    world.reply(eve.chat, "messages of yours wait")
    assert sum("messages of yours wait" in one.text for one in eve.chat.replies) == 1
    assert len(world.asked("flood")) < 400


def test_a_flood_of_one_member_of_discord(world: World) -> None:
    eve = world.member("eve")
    for number in range(400):
        eve.write(eve.dm(), f"flood {number}")
    assert slowest_answer(world, on_discord) < MAX_SECONDS
    assert waiting(world, DEN, f"discord:{eve.id}") in range(MAX_WAITING + 1)
    world.discord_reply(eve.dm(), "messages of yours wait")
    assert len(world.asked("flood")) < 400


def test_a_flood_of_strangers(world: World) -> None:
    strangers = [world.stranger(f"Stranger {number}") for number in range(2 * MAX_CODES)]
    for one in strangers[:MAX_CODES]:
        for _ in range(3):
            one.write(one.chat, "let me in")
    assert slowest_answer(world) < MAX_SECONDS
    world.shown(lambda: no_stranger_waits(world) or None, "the end of the flood", lambda: None)
    for one in strangers[MAX_CODES:]:
        one.write(one.chat, "let me in")
        answer = world.shown(lambda one=one: next(iter(one.chat.replies), None), "an answer", lambda: None)
        if "too many others" in answer.text:
            break
    else:
        raise AssertionError("each stranger got a code")
    [[codes]] = world.rows("SELECT COUNT(*) FROM pairings")
    assert codes == MAX_CODES
    assert all(len(one.chat.replies) <= 1 for one in strangers)
    world.write("DELETE FROM pairings")


def no_stranger_waits(world: World) -> bool:
    return not world.rows("SELECT 1 FROM updates WHERE stranger AND finished_at IS NULL")


def test_a_flood_of_presses(world: World) -> None:
    eve = world.person("Eve")
    asked = eve.write(eve.chat, "hello")
    message = world.reply(eve.chat, "well said", after=asked.id)
    for number in range(400):
        eve.press_forged(message, f"a:{number:016}:once")
    assert slowest_answer(world) < MAX_SECONDS


def test_a_million_brackets(world: World) -> None:
    """Text that keeps a parser busy: it ends as a file, and meanwhile others are answered."""
    eve = world.person("Eve")
    texts = {"brackets": "[" * 1_000_000, "links": "[](" * 100_000, "quotes": "> " * 200_000, "ticks": "`a" * 200_000}

    def answer(request: object) -> Say:
        text = getattr(request, "last_user_text", "")
        found = re.match(r"write (\w+)", text)
        return Say(pieces=(texts[found[1]], "\n\nthe end")) if found else Say("well said")

    world.provider.script.replace(answer)
    for name in texts:
        eve.write(eve.chat, f"/queue write {name}")
    assert slowest_answer(world) < MAX_SECONDS
    world.shown(
        lambda: [one.file for one in eve.chat.replies if one.file] or None,
        "a file",
        lambda: [one.text[:50] for one in eve.chat.replies],
    )


def test_marks_without_end(world: World) -> None:
    marks = Say("e" + "\u0301" * 20_000 + "\n\nthe end")

    def answer(request: object) -> Say:
        """Messages of the flood before may still be answered."""
        return marks if "zalgo" in getattr(request, "last_user_text", "") else Say("well said")

    world.provider.script.replace(answer)
    eve = world.person("Eve")
    eve.write(eve.chat, "zalgo")
    world.reply(eve.chat, "the end")
    world.model()
    assert slowest_answer(world) < MAX_SECONDS
