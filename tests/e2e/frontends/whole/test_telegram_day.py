"""A day of one person on Telegram: paired, talking, deciding, sending files, and in a group."""

from __future__ import annotations

import re

import pytest

from agent_testing import Say

from .day import APPROVAL, FILE, LONG, QUESTION, SECONDS, STREAM, OnTelegram, waited
from .world import World

pytestmark = pytest.mark.slow


@pytest.mark.slow
def test_a_day(world: World) -> None:
    ann, script = OnTelegram(world, "Ann"), world.provider.script
    ann.pair()
    assert "telegram" in world.command("people")
    script.replace(STREAM)
    assert ann.says("stream", "It comes in pieces.").edits, "it was not shown while it came"
    script.replace([Say(LONG)])
    ann.says("split", "7 and so")
    assert len([one for one in ann.user.chat.replies if "and so it goes" in one.text]) == 2
    script.replace(APPROVAL)
    card = ann.says("run it", "Allow bash?")
    ann.user.press(card, "✅ Once", seconds=SECONDS)
    ann.found("It ran.")
    waited(world.telegram, lambda: "Allowed once by Ann" in card.text and not card.buttons)
    script.replace([QUESTION, Say("A fine colour.")])
    ann.user.press(ann.says("ask me", "Press a button"), "blue", seconds=SECONDS)
    ann.found("A fine colour.")
    assert "blue" in str(world.provider.requests[-1].messages[-1])
    script.replace(None, otherwise=Say("Seen."))
    ann.user.send_document(ann.user.chat, "notes.txt", b"some notes", caption="read this")
    ann.found("Seen.")
    assert re.search(
        r"\[file inbox/\S+notes\.txt: application/octet-stream, 10 bytes\]", world.provider.requests[-1].last_user_text
    )
    script.replace(FILE)
    ann.user.write(ann.user.chat, "send it")
    sent = waited(world.telegram, lambda: next((one for one in ann.user.chat.replies if one.file), None))
    assert sent.file is not None
    assert (sent.file.name, sent.file.content) == ("report.txt", b"all is well")
    script.replace(None, otherwise=lambda request: Say(f"Re: {request.last_user_text}"))
    written = ann.user.write(ann.user.chat, "frist")
    again = ann.found("Re: frist")
    ann.user.edit(written, "first")
    waited(world.telegram, lambda: again.text == "Re: first")
    assert "Agent: garden" in ann.says("/status", "Agent").text
    ann.says("/new", "new conversation")
    assert "/rewind" in ann.says("/help", "/help").text
    assert set(world.telegram.commands_for('{"type":"all_private_chats"}')) >= {"new", "stop", "help"}
    assert world.telegram.violations == []


def test_a_group(world: World) -> None:
    ann, ben = OnTelegram(world, "Ann"), OnTelegram(world, "Ben")
    ann.pair()
    group = world.telegram.create_supergroup("Garden", ann.user, ben.user)
    ben.user.write(group, "@helper_bot hello")
    answered = ann.says("@helper_bot hello", "well said", group)
    assert answered.reply_to is not None
    (request,) = world.provider.completions
    assert request.last_user_text.startswith(f'[from "Ann" (telegram:{ann.user.id})]')
    ann.says("/new@helper_bot", "new conversation", group)
    ann.says("@helper_bot again", "well said", group)
    sessions = world.host.mesh.agent("garden", f"telegram:{group.id}").sessions.list()
    assert [one.alias for one in sessions] == [f"telegram-{group.id}-2", f"telegram-{group.id}-1"]
