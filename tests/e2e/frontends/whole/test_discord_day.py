"""A day of one person on Discord: paired, talking, deciding, sending files, and in a channel."""

from __future__ import annotations

import re

import pytest

from agent_testing import Say

from .day import APPROVAL, FILE, LONG, QUESTION, STREAM, OnDiscord, waited
from .world import World

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_a_day(world: World) -> None:
    ann, script = OnDiscord(world, "ann"), world.provider.script
    ann.pair()
    script.replace(STREAM)
    assert ann.says("stream", "It comes in **pieces**.").history, "it was not shown while it came"
    script.replace([Say(LONG)])
    ann.says("split", "7 and so")
    assert len([one for one in ann.user.dm().messages if "and so it goes" in one.content]) == 4
    script.replace(APPROVAL)
    card = ann.says("run it", "Allow bash?")
    ann.user.press(card, "✅ Once").wait()
    ann.found("It **ran**.")
    waited(world.discord, lambda: "Allowed once by ann" in card.content and not card.buttons)
    script.replace([QUESTION, Say("A fine colour.")])
    ann.user.press(ann.says("ask me", "Press a button"), "blue").wait()
    ann.found("A fine colour.")
    assert "blue" in str(world.provider.requests[-1].messages[-1])
    script.replace(None, otherwise=Say("Seen."))
    ann.user.write(ann.user.dm(), "read this", attachments=[("notes.txt", b"some notes")])
    ann.found("Seen.")
    assert re.search(r"\[file inbox/\S+notes\.txt: \S+, 10 bytes\]", world.provider.requests[-1].last_user_text)
    script.replace(FILE)
    ann.user.write(ann.user.dm(), "send it")
    sent = waited(
        world.discord,
        lambda: next((one for one in ann.user.dm().messages if one.author.is_bot and one.attachments), None),
    )
    assert (sent.attachments[0].name, sent.attachments[0].data) == ("report.txt", b"all is well")
    script.replace(None, otherwise=lambda request: Say(f"Re: {request.last_user_text}"))
    written = ann.user.write(ann.user.dm(), "frist")
    again = ann.found("Re: frist")
    ann.user.edit(written, "first")
    waited(world.discord, lambda: again.content == "Re: first")
    ann.user.command("status").wait()
    ann.found("**Agent**: garden")
    ann.user.command("new").wait()
    ann.found("new conversation")
    assert {one["name"] for one in world.discord.bot.commands} >= {"new", "stop", "help"}
    assert world.discord.violations == []


def test_a_channel(world: World) -> None:
    ann, ben = OnDiscord(world, "ann"), OnDiscord(world, "ben")
    ann.pair()
    guild = world.discord.guild("Garden", [ann.user, ben.user])
    channel = world.discord.text_channel(guild, "general")
    ben.user.write(channel, "hello", mentions=[world.discord.bot])
    answered = ann.says("hello", "well said", channel)
    assert answered.reply_to is not None
    (request,) = world.provider.completions
    assert request.last_user_text.startswith(f'[from "ann" (discord:{ann.user.id})]')
    ann.user.command("new", channel=channel).wait()
    ann.found("new conversation", channel)
    ann.says("again", "well said", channel)
    sessions = world.host.mesh.agent("garden", f"discord:{channel.id}").sessions.list()
    assert [one.alias for one in sessions] == [f"discord-{channel.id}-2", f"discord-{channel.id}-1"]
