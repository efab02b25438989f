"""Commands and what happens beside the chat, with a live agent."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from agent_client import Mesh
from agent_common.protocol import SessionRule
from agent_testing import Call, Fail, Hang, Say
from frontends.people import allow_in, note_private_chat_in
from tests.bot_platform import CHAT, LENGTH
from tests.integration.host.live import OPERATOR

from .conftest import WORKSPACE, Bots, buttons

pytestmark = pytest.mark.slow
WELL = Say("well said")


async def test_a_queued_message_has_a_turn_of_its_own(bots: Bots) -> None:
    bots.world.provider.script.replace([Hang(after=1, reply=Say("one two three")), Say("the second")], otherwise=WELL)
    await bots.says("first")
    await bots.until_found("one")
    later = await bots.says("/queue later")
    await bots.until_found("⏳ Queued")
    bots.world.provider.release()
    queued = "⏳ Queued. The agent answers it after the messages before it."
    await bots.until_shown("one two three", queued, "the second")
    await bots.take(bots.people.edit(later.message_id, "/queue much later"))
    await bots.until_shown("one two three", queued, "well said")
    assert bots.world.provider.requests[-1].last_user_text == "much later"
    await bots.says("/queue")
    await bots.until_found("lets the text wait")


async def test_a_turn_is_stopped(bots: Bots) -> None:
    bots.world.provider.script.replace([Call("bash", {"command": "sleep 60"})], otherwise=WELL)
    await bots.says("wait")
    await bots.until_found("sleep 60")
    await bots.says("/stop")
    await bots.until(lambda: sum("⏹ Stopped." in text for text in bots.platform.shown()) == 2)


async def test_a_message_that_is_edited_while_it_is_answered_is_answered_anew(bots: Bots) -> None:
    bots.world.provider.script.replace([Call("bash", {"command": "sleep 60"})], otherwise=WELL)
    first = await bots.says("wait")
    await bots.until_found("sleep 60")
    await bots.take(bots.people.edit(first.message_id, "do not wait"))
    await bots.until_shown("well said")


async def test_an_earlier_conversation_is_continued(bots: Bots) -> None:
    await bots.says("the first topic")
    await bots.until_shown("well said")
    await bots.says("/new")
    await bots.says("the second topic")
    await bots.until(lambda: len(bots.platform.messages) == 3)
    await bots.says("/sessions")
    card = await bots.until_found("**Conversations**")
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        first = await mesh.agent(WORKSPACE, "telegram:1").sessions.get(bots.session)
    data = next(one for one in buttons(card).values() if first.id in one)
    await bots.take(bots.people.press(data))
    await bots.until_found("▸ Going on with")
    await bots.says("go on")
    await bots.until(lambda: len(bots.platform.messages) == 6)
    await bots.until(lambda: "go on" in bots.world.provider.requests[-1].last_user_text)
    texts = str(bots.world.provider.requests[-1].messages)
    assert "the first topic" in texts
    assert "the second topic" not in texts


async def test_models_agents_and_files_are_chosen(bots: Bots) -> None:
    await bots.says("/model nonsense")
    await bots.until_found("There is no model `nonsense`")
    await bots.says("/model default")
    await bots.until_found("`default` answers from the next message on.")
    await bots.says("/agent nonsense")
    await bots.until_found("There is no agent `nonsense`")
    await bots.says(f"/agent {WORKSPACE}")
    await bots.until(lambda: bots.platform.shown()[-1].startswith(f"Now: `{WORKSPACE}`"))
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        await mesh.agent(WORKSPACE).files.write("docs/a.txt", "content")
    await bots.says("/files docs")
    await bots.until_found("- `a.txt`")
    await bots.says("/files docs/a.txt")
    await bots.until(lambda: any(one.file for one in bots.platform.messages.values()))
    assert [one.file for one in bots.platform.messages.values() if one.file] == [("a.txt", b"content")]


async def test_a_long_answer_comes_as_a_file(bots: Bots) -> None:
    text = "word " * (LENGTH * 6 // 5)
    bots.world.provider.script.replace([Say(text)], otherwise=WELL)
    await bots.says("talk")
    await bots.until(lambda: any(one.file for one in bots.platform.messages.values()))
    await bots.until_found("all of it is in")
    (file,) = [one.file for one in bots.platform.messages.values() if one.file]
    assert file == ("answer.md", text.strip().encode())
    assert len(bots.platform.messages) == 6


async def test_what_waits_elsewhere_comes_to_the_private_chat(bots: Bots) -> None:
    await bots.says("/help")
    await bots.database.run(lambda c: allow_in(c, {bots.name: frozenset({"telegram:1"})}))
    await bots.database.run(lambda c: note_private_chat_in(c, bots.name, "telegram:1", CHAT.id))
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        agent, session = mesh.agent(WORKSPACE, "telegram:1"), f"cli-{bots.name}"
        await agent.ask("hello", session=session)
        await agent.sessions.permit(session, [SessionRule(permission="bash", pattern="*", action="ask")])
        bots.world.provider.script.replace([Call("bash", {"command": "echo x"}), Say("It ran.")], otherwise=WELL)
        await agent.send("run it", session=session)
        card = await bots.until_found("Allow bash?")
        assert f"conversation cli\\-{bots.name}" in card.piece.markdown
        shown = bots.platform.messages
        last = await bots.until(lambda: next((one for one in shown.values() if "✅ Once" in buttons(one)), None))
        await bots.take(bots.people.press(buttons(last)["✅ Once"]))
        await bots.until_found("Allowed once by Ann")
        assert (await agent.chat("and now?", session=session).reply()).text == "well said"


async def test_a_failure_elsewhere_is_noticed(bots: Bots) -> None:
    await bots.says("/help")
    await bots.database.run(lambda c: allow_in(c, {bots.name: frozenset({"telegram:1"})}))
    await bots.database.run(lambda c: note_private_chat_in(c, bots.name, "telegram:1", CHAT.id))
    bots.world.provider.script.replace([Fail(400, "no such thing")], otherwise=Fail(400, "no such thing"))
    async with Mesh(bots.world.host.url, OPERATOR) as mesh:
        agent = mesh.agent(WORKSPACE, "telegram:1")

        async def fail() -> None:
            """The first failures may come before the events of the host are followed."""
            while True:
                await agent.send("hello", session=f"cli-{bots.name}")
                await asyncio.sleep(0.2)

        failing = asyncio.create_task(fail())
        await bots.until_found("A turn of ada has failed, in the conversation cli")
        failing.cancel()
        with suppress(asyncio.CancelledError):
            await failing
