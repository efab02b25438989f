"""The bot dies at each of its transactions, and each update has one effect all the same."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from agent_client import Mesh
from agent_common.protocol import SessionRule, SessionSummary
from agent_testing import Call, Say
from frontends.people import allow_in, note_private_chat_in
from frontends.platform import Update
from frontends.store import NAME, Database
from tests.bot_platform import CHAT, Killed
from tests.integration.host.live import OPERATOR

from .conftest import WORKSPACE, Bots, World, buttons

T = TypeVar("T")
pytestmark = pytest.mark.slow
WELL = Say("well said")
MOST = 20


class Mortal:
    """Handles updates with a database whose process dies at a transaction: before it, or after it."""

    def __init__(self, bots: Bots, *, late: bool) -> None:
        self.bots, self.late = bots, late

    async def take(self, update: Update) -> None:
        """Handle an update, and die at its first transaction, then at its second, and so on, until it has ended."""
        await self.bots.store(update)
        for number in range(MOST):
            try:
                await self.bots.handle(update, _dying(self.bots.database, number, late=self.late))
            except Killed:
                await self.bots.kill()
                await self.bots.start()
            if await self.bots.has_ended(update):
                return
        raise AssertionError("the update does not end")


def _dying(database: Database, left: int, *, late: bool) -> Database:
    class Dying(Database):
        def __init__(self) -> None: ...

        async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
            nonlocal left
            left -= 1
            if left < 0 and not late:
                raise Killed
            done = await database.run(work)
            if left < 0:
                raise Killed
            return done

    return Dying()


@pytest.fixture(params=[False, True], ids=["before", "after"])
async def mortal(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> AsyncIterator[Mortal]:
    bots = Bots(world, tmp_path / NAME)
    await bots.start()
    yield Mortal(bots, late=request.param)
    await bots.kill()


async def sessions_of(bots: Bots) -> list[SessionSummary]:
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        found = [one async for one in mesh.agent(WORKSPACE, "telegram:1").sessions.list()]
    return [one for one in found if bots.name in (one.alias or "") or bots.name in str(one.metadata)]


async def test_each_update_has_one_effect(mortal: Mortal) -> None:
    bots, people = mortal.bots, mortal.bots.people
    bots.world.provider.script.replace(lambda request: Say(f"Re: {request.last_user_text.splitlines()[0]}"))
    await mortal.take(people.message("one"))
    await bots.until_shown("Re: one")
    await mortal.take(two := people.message("two"))
    await bots.until_shown("Re: one", "Re: two")
    await mortal.take(people.edit(two.message_id, "three"))
    await bots.until_shown("Re: one", "Re: three")
    await mortal.take(people.message("/rewind"))
    await bots.until_found("Taken back, to before: *three*")
    await mortal.take(people.message("/fork"))
    await bots.until_found("A branch")
    assert len(await sessions_of(bots)) == 2
    await mortal.take(people.message("/new"))
    await bots.until_found("A new conversation")
    await mortal.take(people.message("four"))
    await bots.until_found("Re: four")
    assert len(bots.platform.messages) == 6
    names = [one.alias for one in await sessions_of(bots)]
    assert f"{bots.name}-500-2" in names
    assert len(names) == 3


async def test_an_approval_is_decided_once(mortal: Mortal) -> None:
    bots, people = mortal.bots, mortal.bots.people
    await bots.says("hello")
    await bots.until_shown("well said")
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        rule = SessionRule(permission="bash", pattern="*", action="ask")
        await mesh.agent(WORKSPACE, "telegram:1").sessions.permit(bots.session, [rule])
    bots.world.provider.script.replace([Call("bash", {"command": "echo x"}), Say("It ran.")], otherwise=WELL)
    await mortal.take(people.message("run it"))
    card = await bots.until_found("Allow bash?")
    await mortal.take(people.press(buttons(card)["✅ Once"]))
    await bots.until_found("It ran.")
    await bots.until_found("Allowed once by Ann")
    assert len(bots.platform.messages) == 3


async def transactions(bots: Bots) -> int:
    """How many transactions it takes to hand a message over to the agent and to end its update."""
    await bots.store(update := bots.people.message("hello"))
    for number in range(MOST):
        with suppress(Killed):
            await bots.handle(update, _dying(bots.database, number, late=False))
        if await bots.has_ended(update):
            await bots.until_found("well said")
            return number
    raise AssertionError("the update does not end")


async def test_a_message_does_not_answer_the_question_that_it_has_led_to(bots: Bots) -> None:
    person, people = "telegram:1", bots.people
    await bots.database.run(lambda c: allow_in(c, allowed={bots.name: [person]}))
    await bots.database.run(lambda c: note_private_chat_in(c, bots.name, person, CHAT.id))
    question = {"questions": [{"question": "Which colour?", "options": [{"label": "red"}]}]}
    last = await transactions(bots) - 1
    bots.world.provider.script.replace([Call("question", question), Say("Painted.")], otherwise=WELL)
    bots.world.provider.clear()
    await bots.store(update := people.message("paint the fence"))
    with pytest.raises(Killed):
        await bots.handle(update, _dying(bots.database, last, late=False))
    await bots.until(lambda: bots.world.provider.requests)
    await bots.kill()
    await bots.start()
    card = await bots.until_found("Which colour?")
    await bots.handle(update)
    assert await bots.has_ended(update)
    await bots.take(people.press(buttons(card)["red"]))
    await bots.until_found("Painted.")
