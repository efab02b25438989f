"""People who want more than they may."""

from __future__ import annotations

import re

import pytest

from agent_client import Mesh
from agent_common.protocol import SessionRule
from agent_testing import Call, Say
from frontends.platform import Sender
from tests.bot_platform import CHAT, GROUP
from tests.integration.host.live import OPERATOR

from .conftest import WORKSPACE, Bots, buttons

pytestmark = pytest.mark.slow
WELL = Say("well said")
BEN, EVE = Sender("2", "Ben"), Sender("3", "Ann")


async def asked_in_group(bots: Bots, label: str = "✅ Once") -> str:
    """Ann's message in a group waits for a decision; returns what one of its buttons sends."""
    await bots.says("hello", GROUP)
    await bots.until_shown("well said", chat=GROUP)
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        session = f"{bots.name}-{GROUP.id}-1"
        rule = SessionRule(permission="bash", pattern="*", action="ask")
        await mesh.agent(WORKSPACE, f"telegram:{GROUP.id}").sessions.permit(session, [rule])
    bots.world.provider.script.replace([Call("bash", {"command": "echo x"}), Say("It ran.")], otherwise=WELL)
    await bots.says("run it", GROUP)
    return buttons(await bots.until_found("Allow bash?"))[label]


async def test_in_a_group_only_the_requester_and_approvers_decide(bots: Bots) -> None:
    once = await asked_in_group(bots)
    await bots.take(bots.people.press(once, chat=GROUP, sender=EVE))
    assert "Only Ann" in bots.platform.acknowledged[-1][1]
    await bots.says("yes", GROUP, sender=BEN)  # it is a message of Ben, and waits for the turn
    shown = await bots.until_found("Allow bash?")
    assert shown.piece.buttons
    await bots.until_found("Your message is kept until")
    await bots.take(bots.people.press(once.replace(":once", ":reject"), chat=CHAT))  # the button of another chat
    assert "not valid" in bots.platform.acknowledged[-1][1]
    await bots.says("yes", GROUP)  # of Ann, but it may be about something else
    [yes] = re.findall("yes [A-Z][0-9]", shown.piece.markdown)
    assert yes in (await bots.until_found("Press a button, or write")).piece.markdown
    await bots.says(yes, GROUP, sender=BEN)
    assert (await bots.until_found("Allow bash?")).piece.buttons
    await bots.says(yes, GROUP)
    await bots.until_found("It ran.")
    await bots.until_found("Allowed once by Ann")


async def test_an_approver_decides_for_others(bots: Bots) -> None:
    once = await asked_in_group(bots)
    context, _ = bots.conversations._bots[bots.name]
    object.__setattr__(context.bot, "approvers", frozenset({"telegram:2"}))
    await bots.take(bots.people.press(once, chat=GROUP, sender=BEN))
    await bots.until_found("It ran.")
    await bots.until_found("Allowed once by Ben")


async def test_what_is_always_allowed_is_the_requesters_to_say_shown_and_taken_back(bots: Bots) -> None:
    always = await asked_in_group(bots, "♾ Always in all with agent default")
    context, _ = bots.conversations._bots[bots.name]
    object.__setattr__(context.bot, "approvers", frozenset({"telegram:2"}))
    await bots.take(bots.people.press(always, chat=GROUP, sender=BEN))
    assert "Only Ann may allow this for good" in bots.platform.acknowledged[-1][1]
    assert (await bots.until_found("Allow bash?")).piece.buttons
    await bots.take(bots.people.press(always, chat=GROUP))
    await bots.until_found("It ran.")
    await bots.until_found("Always allowed with agent default by Ann")
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        group = mesh.agent(WORKSPACE, f"telegram:{GROUP.id}")
        [kept] = await group.permissions.list()
        assert (kept.agent, [rule.pattern for rule in kept.rules]) == ("default", ["echo *"])
        assert await mesh.agent(WORKSPACE, "telegram:1").permissions.list() == []
        await bots.says("/permissions", GROUP)
        await bots.until_found("allow `bash echo *`")
        await bots.says("/permissions")
        await bots.until_found("Nothing is always allowed")
        await bots.says("/permissions remove default", GROUP, sender=BEN)
        await bots.until_found("Calls of `default` are asked about again")
        assert await group.permissions.list() == []
    await bots.says("/permissions remove nobody", GROUP)
    await bots.until_found("There is no agent `nobody`")


@pytest.mark.parametrize(
    "data",
    [
        "",
        "a",
        "a:",
        "a::once",
        "b:x:back",
        "b:",
        "s:",
        "s:ses_unknown",
        "s:ses_../../tokens",
        "x" * 64,
        "a:%:once",
        "s:main",
    ],
)
async def test_forged_buttons_do_nothing(bots: Bots, data: str) -> None:
    await bots.take(bots.people.press(data))
    ((_, text),) = bots.platform.acknowledged
    assert "not valid" in text or "does not exist" in text
    assert bots.platform.messages == {}


async def test_the_conversation_of_another_person_is_not_opened(bots: Bots) -> None:
    await bots.says("a secret")
    await bots.until_shown("well said")
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        theirs = (await mesh.agent(WORKSPACE, "telegram:1").sessions.get(bots.session)).id
    await bots.take(bots.people.press(f"s:{theirs}", chat=GROUP, sender=BEN))
    assert "does not exist" in bots.platform.acknowledged[-1][1]


async def test_only_the_writer_goes_back(bots: Bots) -> None:
    first = await bots.says("one", GROUP)
    await bots.until_shown("well said", chat=GROUP)
    await bots.says("two", GROUP)
    await bots.until_shown("well said", "well said", chat=GROUP)
    await bots.says("three", GROUP, reply_to=first.message_id)
    back = buttons(await bots.until_found("Go back to there?"))["↩ Go back"]
    await bots.take(bots.people.press(back, chat=GROUP, sender=BEN))
    assert "Only the writer" in bots.platform.acknowledged[-1][1]
    await bots.says("/new", GROUP)
    await bots.take(bots.people.press(back, chat=GROUP))
    await bots.until_found("The conversation is another one by now.", GROUP)
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        sessions = mesh.agent(WORKSPACE, f"telegram:{GROUP.id}").sessions
        assert len([one async for one in sessions.messages(f"{bots.name}-{GROUP.id}-1")]) == 4


async def test_links_of_the_answer_do_not_leave_the_workspace(bots: Bots) -> None:
    bots.world.provider.script.replace(
        [Say("[a](workspace:../../etc/passwd) [b](workspace:/etc/passwd) [c](workspace:nowhere.txt)")], otherwise=WELL
    )
    await bots.says("send it")
    await bots.until_found("is not in the workspace")
    assert not any(one.file for one in bots.platform.messages.values())
