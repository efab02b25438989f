"""Updates on their way through the inbox to a handler: in order, side by side, tried again, bounded."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_common.backoff import Backoff
from agent_testing import ManualClock
from frontends.bots.chats import ATTEMPTS, MAX_AT_ONCE, Chats
from frontends.bots.intake import MAX_WAITING, MAX_WAITING_OF_STRANGERS, Intake
from frontends.bots.strangers import Strangers
from frontends.conversation import Bot, Later, is_urgent
from frontends.people import Person, code_in, confirm, private_chats_in, unpair_in
from frontends.platform import ChatGone, IncomingFile, Quote, Sender, TemporarilyUnavailable, Update
from frontends.store import Database, moves_in, opened, waiting_chats_in
from tests.bot_platform import MemoryPlatform, unreachable

from .fakes import TEAM, FakeHandler, FakePlatform, admit, message, press, private, until

SOON = Backoff(0.01, 0.02)
ANN, BOB, STRANGER = 1, 2, 9


@dataclass
class World:
    database: Database
    platform: FakePlatform
    handler: FakeHandler
    clock: ManualClock
    chats: Chats
    intake: Intake

    async def waiting(self) -> list[str]:
        return await self.database.run(partial(waiting_chats_in, bot="home"))

    async def idle(self) -> None:
        """Wait until nothing waits."""
        async with asyncio.timeout(60):
            while await self.waiting():
                await asyncio.sleep(0.005)

    async def restart(self) -> None:
        await self.chats.aclose()
        self.chats, self.intake = parts(self.database, self.platform, self.handler, self.clock)
        await self.chats.start()


def parts(database: Database, platform: FakePlatform, handler: FakeHandler, clock: ManualClock) -> tuple[Chats, Intake]:
    bot = Bot("home", platform, ["a"])
    chats = Chats(bot, database, handler, clock, backoff=SOON)
    return chats, Intake(bot, database, clock, wake=chats.wake, refuse=chats.refuse)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    database = await Database.open(tmp_path / "bots.db")
    await admit(database, "home", ANN, BOB)
    platform, handler, clock = FakePlatform(), FakeHandler(), ManualClock()
    made = World(database, platform, handler, clock, *parts(database, platform, handler, clock))
    yield made
    await made.chats.aclose()
    await database.aclose()


async def test_updates_are_handled_once_in_the_order_in_which_people_acted(world: World) -> None:
    gate = asyncio.Event()

    async def wait(update: Update) -> None:
        await gate.wait()

    world.handler.answer = wait
    await world.intake.accept([message(1)])
    await until(lambda: world.handler.handled)
    await world.intake.accept([message(4), message(3)])
    await world.intake.accept([message(2), message(4), message(1)])
    gate.set()
    await world.idle()
    await world.intake.accept([message(3), message(1)])
    assert world.handler.handled == ["1", "2", "3", "4"]
    assert world.handler.people[0] == Person("telegram:1", frozenset({"telegram:1"}))
    assert await world.waiting() == []


async def test_the_parts_of_an_album_are_one_message_however_they_come_again(world: World) -> None:
    def part(id: int, **fields: Any) -> Update:
        file = IncomingFile(f"file {id}", "a.jpg", "image/jpeg", 1)
        shown: dict[str, Any] = {"text": "", "addressed": False, "files": [file], "album": "77", **fields}
        return replace(message(id, chat=TEAM), **shown)

    handled: list[Update] = []

    async def keep(update: Update) -> None:
        handled.append(update)

    world.handler.answer = keep
    quote = Quote("which one?", Sender("2", "Ben"))
    captioned = part(3, text="look", addressed=True, quote=quote)
    await world.intake.accept([part(1), message(2, chat=TEAM), captioned, part(4, album="78"), part(5), part(5)])
    await world.idle()
    [album, other] = handled
    assert (album.id, album.message_id, album.text, other.id) == ("1", "m3", "look", "2")
    assert album.quote == quote
    assert [file.reference for file in album.files] == ["file 1", "file 3", "file 5"]
    await world.intake.accept([captioned])
    await world.intake.accept([part(1), captioned, part(5), late := part(6, text="@bot and this", addressed=True)])
    await world.idle()
    assert handled[2:] == [late]


async def test_a_move_is_stored_with_the_updates_around_it(world: World) -> None:
    move = replace(message(2, STRANGER, chat=TEAM), kind="move", text="-1001")
    await world.intake.accept([message(1, chat=TEAM), move, message(3, chat=TEAM)])
    await world.idle()
    assert world.handler.handled == ["1", "3"]
    assert await world.database.run(partial(moves_in, bot="home")) == {"-1001": TEAM.id}


async def test_a_chat_that_takes_long_holds_up_no_other(world: World) -> None:
    async def hang(update: Update) -> None:
        if update.chat == private(ANN):
            await asyncio.Event().wait()

    world.handler.answer = hang
    await world.intake.accept([message(1, ANN), message(2, ANN), message(3, BOB), message(4, ANN, chat=TEAM)])
    await until(lambda: len(world.handler.handled) == 3)
    assert set(world.handler.handled) == {"1", "3", "4"}


async def test_at_most_so_many_are_handled_at_a_time_and_none_twice_before_all_had_a_turn(world: World) -> None:
    gate, running, most = asyncio.Event(), 0, 0
    people = range(100, 100 + MAX_AT_ONCE + 10)

    async def count(update: Update) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    await admit(world.database, "home", *people)
    world.handler.answer = count
    await world.intake.accept([message(100 * person + turn, person) for person in people for turn in range(2)])
    await until(lambda: running == MAX_AT_ONCE)
    gate.set()
    await world.idle()
    assert most == MAX_AT_ONCE
    first = [id for id in world.handler.handled if id.endswith("00")]
    assert world.handler.handled[: len(people)] == first


async def test_what_waits_is_taken_up_by_the_next_process(world: World) -> None:
    async def hang(update: Update) -> None:
        await asyncio.Event().wait()

    world.handler.answer = hang
    await world.intake.accept([message(1), message(2), message(3, BOB)])
    await until(lambda: len(world.handler.handled) == 2)
    world.handler = FakeHandler()
    await world.restart()
    await world.idle()
    assert [id for id in world.handler.handled if id != "3"] == ["1", "2"]
    assert len(world.handler.handled) == 3


async def test_an_agent_that_cannot_be_reached_is_waited_for_and_the_person_learns_it_once(world: World) -> None:
    down = True

    async def later(update: Update) -> None:
        if down:
            raise Later(None if len(world.handler.handled) % 2 else 0.0, "The agent rests.")

    world.handler.answer = later
    await world.intake.accept([message(1), message(2)])
    await until(lambda: len(world.handler.handled) >= 4)
    await world.restart()
    await until(lambda: len(world.handler.handled) >= 8)
    assert set(world.handler.handled) == {"1"}
    assert world.handler.texts(ANN) == ["The agent rests. Your message is kept and will be answered."]
    assert world.platform.sent == [], "it was sent past the messages that the engine knows"
    down = False
    await world.idle()
    assert world.handler.handled[-1] == "2"
    assert len(world.handler.texts(ANN)) == 1


@pytest.mark.parametrize("text", [None, "/stop", "no K7, too much"])
async def test_what_ends_a_delay_is_handled_before_what_is_delayed(world: World, text: str | None) -> None:
    """A session that waits for a person takes no more messages when its queue is full."""
    ends = press(100, ANN, private(ANN)) if text is None else replace(message(100), text=text)

    async def later(update: Update) -> None:
        if update.kind == "message" and update.id != "100" and "100" not in world.handler.handled:
            raise Later(50.0, "The agent has too much to do right now.")

    world.handler.answer = later
    await world.intake.accept([message(id) for id in range(1, MAX_WAITING + 1)])
    await until(lambda: world.handler.texts(ANN))
    await world.intake.accept([ends])
    await world.idle()
    assert world.handler.handled == ["1", "100", *map(str, range(1, MAX_WAITING + 1))]
    assert not is_urgent(replace(ends, kind="message", forwarded_from="Eve"))
    await world.intake.accept([ends, replace(message(101), text="/stop"), press(102, ANN, private(ANN))])
    await world.idle()
    assert world.handler.handled[-2:] == ["101", "102"], "in order while nothing is delayed"


@pytest.mark.parametrize("data", ["s:ses_1", "b:1:back", "b:1:send", "x"])
async def test_a_press_that_decides_nothing_comes_after_what_was_written_before_it(world: World, data: str) -> None:
    """It may choose another conversation: what is delayed would go into that one."""
    gate = asyncio.Event()

    async def later(update: Update) -> None:
        if not gate.is_set():
            gate.set()
            raise Later(0.05)

    world.handler.answer = later
    await world.intake.accept([message(1)])
    await gate.wait()
    await world.intake.accept([replace(press(2, ANN, private(ANN)), text=data)])
    await world.idle()
    assert world.handler.handled == ["1", "1", "2"]


async def test_what_is_urgent_and_delayed_itself_holds_up_no_other_for_long(world: World) -> None:
    async def later(update: Update) -> None:
        if update.kind == "button" or world.handler.handled.count("1") < 3:
            raise Later(0.01)

    world.handler.answer = later
    await world.intake.accept([message(1), press(2, ANN, private(ANN))])
    await until(lambda: len(world.handler.handled) > 6)
    assert world.handler.handled[:6] == ["1", "2", "1", "2", "1", "2"]
    assert await world.waiting() == ["1"]


async def test_an_update_that_fails_thrice_is_set_aside(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def fail(update: Update) -> None:
        if update.id == "1":
            raise LookupError("a bug")

    world.handler.answer = fail
    await world.intake.accept([message(1), message(2)])
    await world.idle()
    assert world.handler.handled == ["1", "1", "1", "2"]
    assert caplog.text.count("an update failed") == 3
    await world.intake.accept([message(1)])
    assert await world.waiting() == []


async def test_a_full_disk_loses_nothing(world: World) -> None:
    full = True

    async def fail(update: Update) -> None:
        if full:
            raise sqlite3.OperationalError("database or disk is full")

    world.handler.answer = fail
    await world.intake.accept([message(1)])
    await until(lambda: len(world.handler.handled) > ATTEMPTS + 1)
    full = False
    await world.idle()
    assert world.platform.sent == []


async def test_a_person_whose_update_is_set_aside_learns_it(world: World) -> None:
    async def fail(update: Update) -> None:
        raise LookupError("a bug")

    world.handler.answer = fail
    await world.intake.accept([message(1)])
    await until(lambda: world.handler.texts(ANN))
    assert "which is dropped" in world.handler.texts(ANN)[0]
    assert "a bug" not in world.handler.texts(ANN)[0]


async def test_a_flood_of_one_person_is_cut_and_others_are_answered_meanwhile(world: World) -> None:
    gate = asyncio.Event()

    async def wait(update: Update) -> None:
        if update.sender.id == str(ANN):
            await gate.wait()

    world.handler.answer = wait
    for begin in range(0, 500, 50):
        await world.intake.accept([message(1000 + begin + id) for id in range(50)])
    await world.intake.accept([message(1, BOB)])
    await until(lambda: "1" in world.handler.handled)
    await until(lambda: world.handler.texts(ANN))
    gate.set()
    await world.idle()
    assert world.handler.handled.count("1") == 1
    assert len(world.handler.handled) == MAX_WAITING + 1
    assert world.handler.texts(ANN) == [
        "20 messages of yours wait. What you send beyond these is dropped until they are handled."
    ]
    await world.intake.accept([message(5000)])
    await world.idle()
    assert world.handler.handled[-1] == "5000"


async def test_what_comes_again_while_much_waits_is_not_called_dropped(world: World) -> None:
    gate = asyncio.Event()

    async def wait(_: Update) -> None:
        await gate.wait()

    world.handler.answer = wait
    full = [message(1000 + id) for id in range(MAX_WAITING)]
    await world.intake.accept(full)
    await world.intake.accept(full)
    gate.set()
    await world.idle()
    assert world.handler.handled == [update.id for update in full]
    assert world.handler.texts(ANN) == []


async def test_a_stranger_gets_a_code_and_reaches_no_agent(world: World) -> None:
    await world.intake.accept([message(1, STRANGER), message(2, STRANGER)])
    await world.idle()
    await world.intake.accept([message(3, STRANGER)])
    await world.idle()
    (first,) = world.platform.texts(STRANGER)
    (line,) = [line for line in first.splitlines() if line.startswith("agent bots pair ")]
    world.clock.advance(61)
    await world.intake.accept([message(4, STRANGER)])
    await world.idle()
    assert world.platform.texts(STRANGER) == [first, first], "the same code a minute later"
    world.clock.advance(61)
    await world.restart()
    await world.intake.accept([message(5, STRANGER)])
    await world.idle()
    assert line not in world.platform.texts(STRANGER)[2], "the code is not in the database, so another takes its place"
    assert world.handler.handled == []


async def test_a_stranger_gets_a_code_after_an_outage(world: World, caplog: pytest.LogCaptureFixture) -> None:
    away = TemporarilyUnavailable("Telegram does not answer")
    world.platform.sending += [away] * (ATTEMPTS + 1) + [TemporarilyUnavailable("it asks to wait", retry_after=0.01)]
    await world.intake.accept([message(1, STRANGER)])
    await world.idle()
    assert len(world.platform.texts(STRANGER)) == 1
    assert world.handler.texts(STRANGER) == []
    assert "an update failed" not in caplog.text


async def test_a_stranger_who_has_blocked_the_bot_is_let_go(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.platform.sending = [ChatGone("it was blocked by the user")]
    await world.intake.accept([message(1, STRANGER)])
    await world.idle()
    assert world.platform.texts(STRANGER) == []
    assert not world.platform.sending
    assert "an update failed" not in caplog.text


async def test_a_code_that_died_with_its_process_is_not_what_a_stranger_sees(world: World, tmp_path: Path) -> None:
    """The first process dies after its message was sent, which comes again. Discord takes a message of the same key for
    a repetition, as the second attempt of a process is one."""
    platform = MemoryPlatform()
    lost = iter([unreachable()])

    def lose(_: str) -> None:
        for error in lost:
            raise error

    platform.after = lose
    bot, asked = Bot("home", platform, ["a"]), message(1, STRANGER)
    first = Strangers(bot, world.database, world.clock)
    with pytest.raises(Later):
        await first.answer(asked)
    await first.answer(asked)
    assert len(platform.messages) == 1
    await Strangers(bot, world.database, world.clock).answer(asked)
    [*_, code] = re.findall(r"agent bots pair (\S+)", "".join(platform.shown(private(STRANGER))))
    with opened(tmp_path / "bots.db") as other:
        assert confirm(other, code, None, now=world.clock.now_ms()).identity == f"telegram:{STRANGER}"


async def test_in_a_group_only_paired_people_who_address_the_bot_are_answered(world: World) -> None:
    await world.intake.accept(
        [
            message(1, STRANGER, chat=TEAM),
            message(2, ANN, chat=TEAM, addressed=False),
            message(3, ANN, chat=TEAM),
            press(4, STRANGER, TEAM),
        ]
    )
    await world.idle()
    assert world.handler.handled == ["3"]
    assert world.platform.sent == []
    assert world.platform.acknowledged == [("interaction 4", "You are not paired with this bot.")]
    assert await world.database.run(partial(private_chats_in, bot="home", principal="telegram:1")) == []


async def test_strangers_together_are_bounded_and_hold_up_nobody_who_is_paired(world: World) -> None:
    world.platform.hangs = True
    await world.intake.accept([message(id, id) for id in range(1000, 1000 + MAX_WAITING_OF_STRANGERS + 50)])
    assert len(await world.waiting()) == MAX_WAITING_OF_STRANGERS
    await world.intake.accept([message(1, ANN)])
    await until(lambda: world.handler.handled == ["1"])
    await world.chats.aclose()


async def test_what_waits_of_a_person_who_is_unpaired_is_dropped_at_once(world: World, tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def wait(update: Update) -> None:
        await gate.wait()

    world.handler.answer = wait
    await world.intake.accept([message(1), message(2)])
    await until(lambda: world.handler.handled)
    with opened(tmp_path / "bots.db") as other:
        unpair_in(other, "telegram:1", now=world.clock.now_ms())
    gate.set()
    await world.idle()
    await world.intake.accept([message(3, chat=TEAM)])
    assert world.handler.handled == ["1"]


async def test_a_person_who_is_paired_while_their_message_waits_gets_no_code(world: World, tmp_path: Path) -> None:
    bot = Bot("home", world.platform, ["a"])
    quiet = Intake(bot, world.database, world.clock, wake=lambda _: None, refuse=lambda *_: None)
    await quiet.accept([message(1, STRANGER)])
    now = world.clock.now_ms()
    with opened(tmp_path / "bots.db") as other:
        code = code_in(other, "home", "telegram:9", chat="9", known=None, now=now)
        assert code is not None
        confirm(other, code, None, now=now)
    await world.restart()
    await world.idle()
    assert world.handler.handled == ["1"]
    assert world.platform.sent == []
