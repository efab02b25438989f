"""Presses of buttons: on disk first, then acknowledged in the seconds that Discord gives."""

from __future__ import annotations

import asyncio

from agent_testing.discord import FakeDiscord, Fault, User
from frontends.platform import Button, Piece

from .conftest import Bots, chat_of, eventually

DECISION = Piece("May I?", ((Button("Once", "a:1:once"),),))


async def test_a_press_is_acknowledged_after_it_was_stored(bots: Bots, discord_: FakeDiscord, ada: User) -> None:
    async with bots.receiving() as receiver:
        number = await receiver.platform.send(chat_of(ada.dm()), DECISION, key="1")
        action = ada.press(ada.dm().messages[0], "Once")
        (update,) = await receiver.until(1)
        assert await asyncio.to_thread(action.wait) == "deferred-update"
        assert (update.kind, update.text, update.message_id) == ("button", "a:1:once", number)
        assert (update.sender.id, update.chat) == (str(ada.id), chat_of(ada.dm()))
        assert update.interaction
        await receiver.platform.acknowledge(update.interaction)
        await receiver.platform.acknowledge(update.interaction, "Only Bob may decide this")
    assert [message.content for message in ada.ephemeral] == ["Only Bob may decide this"]


async def test_a_press_is_acknowledged_in_time_although_storing_takes_long(
    bots: Bots, discord_: FakeDiscord, ada: User
) -> None:
    stored = asyncio.Event()

    async def wait() -> None:
        await stored.wait()

    async with bots.receiving() as receiver:
        await receiver.platform.send(chat_of(ada.dm()), DECISION, key="1")
        receiver.before_storing = wait
        press, command = ada.press(ada.dm().messages[0], "Once"), ada.command("new")
        assert await asyncio.to_thread(press.wait) == "deferred-update"
        assert await asyncio.to_thread(command.wait) == "deferred-message"
        assert not receiver.updates
        stored.set()
        await receiver.until(2)
        assert (await asyncio.to_thread(command.wait_for_message)).content == "`/new`"


async def test_a_text_follows_the_acknowledgement_that_is_under_way(bots: Bots, ada: User) -> None:
    async with bots.receiving() as receiver:
        await receiver.platform.send(chat_of(ada.dm()), DECISION, key="1")

        async def tell_at_once() -> None:
            """Comes before the acknowledgement, which follows the store."""

        receiver.before_storing = tell_at_once
        ada.press(ada.dm().messages[0], "Once")
        (update,) = await receiver.until(1)
        assert update.interaction
        await receiver.platform.acknowledge(update.interaction, "expired")
    assert [message.content for message in ada.ephemeral] == ["expired"]


async def test_a_text_that_comes_too_late_is_dropped(bots: Bots, ada: User) -> None:
    async with bots.open() as platform:
        await platform.acknowledge("a-token-that-is-over", "expired")


async def test_buttons_of_an_earlier_process_work(bots: Bots, ada: User) -> None:
    async with bots.open() as platform:
        await platform.send(chat_of(ada.dm()), DECISION, key="1")
    async with bots.receiving() as receiver:
        action = ada.press(ada.dm().messages[0], "Once")
        (update,) = await receiver.until(1)
        await asyncio.to_thread(action.wait)
    assert update.text == "a:1:once"


async def test_presses_that_come_twice_and_answers_that_are_lost_are_no_other_copy(
    bots: Bots, discord_: FakeDiscord, ada: User
) -> None:
    async with bots.receiving() as receiver:
        await receiver.platform.send(chat_of(ada.dm()), DECISION, key="1")
        bots.clock.advance(60)
        discord_.faults.next_event("twice", times=3)
        for number in range(3):
            await asyncio.to_thread(ada.press(ada.dm().messages[0], "Once").wait)
            await receiver.until(number + 1)
        discord_.faults.next(Fault("5xx-after"), at="POST /interactions", times=2)
        for number in range(2):
            ada.press(ada.dm().messages[0], "Once")
            await receiver.until(number + 4)
        await eventually(lambda: [request.code for request in discord_.journal].count(40060) == 2)
        ada.write(ada.dm(), "still there?")
        await receiver.until(6)
    assert receiver.ended is None
