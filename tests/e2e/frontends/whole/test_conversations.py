"""Messages that join, change and go back, and one person on two platforms. The agent is asked for the effect."""

from __future__ import annotations

import re

import pytest

from agent_testing import Call, Say

from .chats import Chat, echo
from .phones import DiscordPhone, TelegramPhone

pytestmark = pytest.mark.slow


def works_until(chat: Chat, file: str) -> Call:
    """A call that ends when there is such a file in the workspace."""
    return Call("bash", {"command": f"until [ -e {chat.name()}-{file} ]; do sleep 0.1; done"})


def let_end(chat: Chat, file: str) -> None:
    chat.agent().files.write(f"{chat.name()}-{file}", "now")


def test_a_message_joins_the_turn_that_runs(chat: Chat) -> None:
    chat.world.provider.script.replace([works_until(chat, "joined")], otherwise=Say("Both done."))
    one = chat.says("one", "until")
    two = chat.phone.write("two")
    chat.until(lambda: chat.session().queue)
    let_end(chat, "joined")
    chat.finds("Both done.")
    chat.rests()
    (shown,) = chat.shown()
    assert "↳ two" in shown.text
    assert chat.told() == ["one", "two"]
    assert [one["status"] for one in chat.outcomes()] == ["complete"]
    assert [said for said in chat.asked() if said in ("one", "two")] == ["one", "two"]
    chat.phone.edit(two, "too")
    chat.finds("part of the answer to an earlier message")
    chat.phone.edit(one, "won")
    chat.finds("Only the last message")
    assert chat.told() == ["one", "two"]


def test_an_edited_message_is_answered_anew(chat: Chat) -> None:
    first = chat.hears("one")
    second = chat.hears("tow")
    answer = chat.finds("Re: tow")
    chat.phone.edit(second, "two")
    assert chat.finds("Re: two").id == answer.id
    assert [one.text for one in chat.shown()] == ["Re: one", "Re: two"]
    assert chat.told() == ["one", "two"]
    assert chat.asked() == ["one", "Re: one", "two"]
    chat.phone.edit(first, "won")
    chat.finds("Only the last message")
    assert chat.told() == ["one", "two"]


def test_an_edit_stops_the_turn_that_answers_the_message(chat: Chat) -> None:
    chat.world.provider.script.replace([works_until(chat, "never")], otherwise=echo)
    written = chat.says("wiat", "until")
    (draft,) = chat.shown()
    chat.phone.edit(written, "wait")
    assert chat.finds("Re: wait").id == draft.id
    chat.phone.wait_for(lambda: [one.text for one in chat.shown()] == ["Re: wait"])
    chat.rests()
    assert chat.told() == ["wait"]
    assert [one["status"] for one in chat.outcomes()] == ["complete"]
    assert chat.asked() == ["wait"]


def test_a_reply_to_an_older_message_goes_back_after_asking(chat: Chat) -> None:
    first = chat.hears("one")
    chat.hears("two")
    chat.says("three", "Go back to there?", reply_to=first)
    assert chat.told() == ["one", "two"], "nothing happens before the press"
    chat.presses(chat.finds("Go back to there?"), "↩ Go back", "Re: three")
    assert not chat.finds("Went back.").buttons
    assert chat.told() == ["one", "three"]
    assert chat.asked() == ["one", "Re: one", "three"]
    chat.rests()
    answer = chat.finds("Re: one")
    chat.says("four", "Go back to there?", reply_to=answer.id)
    chat.presses(chat.finds("Go back to there?"), "Just send it", 'Re: [reply to you: "Re: one"]')
    assert not chat.finds("Sent without going back.").buttons
    assert chat.told() == ["one", "three", '[reply to you: "Re: one"]']


def pair(chat: Chat, *options: str) -> None:
    """Pair a stranger by the code that the bot shows them."""
    chat.phone.write("hello")
    code = re.search(r"agent bots pair (\S+)", chat.finds("agent bots pair").text)
    assert code is not None
    chat.world.command("pair", code[1], *options)
    chat.finds("You are paired")


def test_one_person_on_two_platforms(chat: Chat) -> None:
    """Whoever comes first is the person; the other platform is linked to them."""
    world = chat.world
    strangers = [Chat(world, TelegramPhone(world.telegram, "Bea")), Chat(world, DiscordPhone(world.discord, "bea"))]
    first, second = sorted(strangers, key=lambda one: one.phone.name.partition(":")[0] != chat.name().partition("-")[0])
    pair(first)
    pair(second, "--person", first.phone.name)
    assert world.provider.completions == [], "a code is asked for, and no agent"
    first.hears("one")
    second.says("two", "Re: two")
    found = {one.alias for one in first.agent().sessions.list()}
    assert found == {first.name(), second.name()}
    assert list(second.agent().sessions.list()) == [], "the agent knows one person"
    card = second.calls("sessions", expected="Conversations")
    assert card.buttons == ["▸ two", "one"]
    second.presses(card, "one", "▸ Going on with one")
    second.says("three", "Re: three")
    assert first.told() == ["one", "three"]
    assert second.asked() == ["one", "Re: one", "three"]
    assert f"{first.phone.name}\t" in world.command("people")
    world.command("unpair", second.phone.name)
    assert second.phone.name not in world.command("people")
    first.hears("four")
    assert first.told() == ["one", "three", "four"]
