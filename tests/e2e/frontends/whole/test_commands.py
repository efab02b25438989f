"""Each command on both platforms: what it does is asked of the agent, the host and the model, not of the bot."""

from __future__ import annotations

import pytest

from agent_testing import Call, Hang, Say
from frontends.conversation.commands import COMMANDS

from .chats import Chat, echo
from .world import OTHER, WORKSPACE

pytestmark = pytest.mark.slow
WAITS = Call("bash", {"command": "sleep 60"})


def test_new_and_sessions(chat: Chat) -> None:
    chat.hears("one")
    chat.calls("new", expected="A new conversation")
    chat.hears("two")
    assert (chat.told(), chat.told(chat.name(2))) == (["one"], ["two"])
    assert chat.asked() == ["two"]
    card = chat.calls("sessions", expected="Conversations")
    assert card.buttons == ["▸ two", "one"]
    chat.presses(card, "one", "▸ Going on with one")
    chat.hears("three")
    assert (chat.told(), chat.told(chat.name(2))) == (["one", "three"], ["two"])


def test_status_cost_and_help(chat: Chat) -> None:
    assert "Conversation: a new one" in chat.calls("status", expected="Agent").text
    assert "Nothing yet" in chat.calls("cost", expected="Nothing yet").text
    chat.hears("one")
    chat.until(lambda: chat.agent().status().state == "idle")
    status = chat.calls("status", expected="Agent").text
    for line in (f"Agent: {WORKSPACE}, idle", "Model: default", "Conversation: one, nothing runs"):
        assert line in status
    session = chat.session()
    cost = chat.calls("cost", expected="💰").text
    assert f"{session.cost_usd:.4f} US dollars" in cost
    assert f"{session.total_tokens} tokens: {session.usage.input} in, {session.usage.output} out." in cost
    names = {command.name for command in COMMANDS}
    assert chat.phone.menu() == names
    listed = chat.calls("help", expected="/new").text
    assert [name for name in names if f"/{name}" not in listed] == []


def test_queue(chat: Chat) -> None:
    chat.world.provider.script.replace([Hang(after=1, reply=Say("one two three"))], otherwise=echo)
    chat.says("first", "one")
    chat.calls("queue", "later", expected="⏳ Queued")
    assert [one.parts[0]["text"] for one in chat.session().queue] == ["later"]
    status = chat.calls("status", expected="Agent").text
    assert "works" in status
    assert "Queue: 1" in status
    chat.world.provider.release()
    chat.finds("one two three")
    chat.finds("Re: later")
    assert chat.told() == ["first", "later"]
    assert [one.last_user_text.splitlines()[0] for one in chat.world.provider.completions] == ["first", "later"]
    chat.calls("queue", expected="/queue TEXT lets the text wait")
    assert chat.told() == ["first", "later"]


def test_stop(chat: Chat) -> None:
    chat.calls("stop", expected="Nothing runs.")
    chat.world.provider.script.replace([WAITS], otherwise=echo)
    chat.says("wait", "sleep 60")
    assert chat.session().status.state == "busy"
    chat.calls("stop", expected="⏹ Stopped.")
    chat.rests()
    (outcome,) = chat.outcomes()
    assert (outcome["status"], outcome["finish_reason"]) == ("cancelled", "abort")
    chat.phone.wait_for(lambda: sum("⏹ Stopped." in one.text for one in chat.shown()) == 2)
    assert len(chat.world.provider.completions) == 1, "the model is not told of the end of a call that was stopped"
    chat.hears("go on")
    assert chat.told() == ["wait", "go on"]


def test_rewind(chat: Chat) -> None:
    chat.calls("rewind", expected="There are only 0 messages")
    for text in ("one", "two", "three"):
        chat.hears(text)
    chat.calls("rewind", expected="Taken back, to before: three")
    assert chat.told() == ["one", "two"]
    assert chat.told(hidden=True) == ["one", "two", "three"]
    chat.hears("four")
    assert chat.asked() == ["one", "Re: one", "two", "Re: two", "four"]
    chat.calls("rewind", "4", expected="There are only 3 messages")
    chat.calls("rewind", "none", expected="/rewind 3 the last three")
    assert chat.told() == ["one", "two", "four"]
    chat.calls("rewind", "2", expected="Taken back, to before: two")
    assert chat.told() == ["one"]


def test_fork(chat: Chat) -> None:
    chat.calls("fork", expected="There is no conversation yet")
    chat.hears("one")
    chat.world.provider.script.replace([Hang(after=1, reply=Say("well said"))], otherwise=echo)
    chat.says("two", "well")
    chat.calls("fork", expected="The agent still works")
    assert len(list(chat.agent().sessions.list())) == 1
    chat.world.provider.release()
    chat.finds("well said")
    chat.rests()
    chat.calls("fork", expected="A branch of the conversation")
    (fork,) = [one for one in chat.agent().sessions.list() if one.parent_id == chat.session().id]
    assert chat.told(fork.id) == ["one", "two"]
    chat.hears("three")
    assert (chat.told(), chat.told(fork.id)) == (["one", "two"], ["one", "two", "three"])


def test_model(chat: Chat) -> None:
    chat.hears("one")
    assert chat.world.host.recent()[0]["model"] == "default"
    assert "unpriced" in chat.calls("model", expected="/model NAME").text
    chat.calls("model", "nonsense", expected="There is no model nonsense")
    chat.calls("model", "unpriced", expected="unpriced answers from the next message on")
    chat.hears("two")
    assert [one["model"] for one in chat.world.host.recent(user=chat.phone.name)[:2]] == ["unpriced", "default"]
    assert "Model: unpriced" in chat.calls("status", expected="Agent").text


def test_agent(chat: Chat) -> None:
    chat.hears("one")
    assert "bash" in chat.world.provider.completions[-1].tool_names
    chat.calls("agent", "nonsense", expected="There is no agent nonsense")
    chat.calls("agent", "explore", expected="explore answers from the next message on")
    chat.hears("two")
    assert "bash" not in chat.world.provider.completions[-1].tool_names
    assert chat.told() == ["one", "two"]
    chat.calls("agent", OTHER, expected=f"{OTHER} answers now, in a new conversation")
    chat.hears("three", OTHER)
    (there,) = chat.agent(OTHER).sessions.list()
    assert there.alias == chat.name(2)
    assert chat.told() == ["one", "two"]
    assert f"Agent: {OTHER}" in chat.calls("status", expected="Agent").text


def test_files(chat: Chat) -> None:
    folder = f"docs-{chat.name()}"
    chat.agent().files.write(f"{folder}/a.txt", "content")
    assert f"{folder}/" in chat.calls("files", expected="📂 workspace").text
    assert "a.txt" in chat.calls("files", folder, expected=f"📂 {folder}").text
    chat.calls("files", "nowhere", expected="There is no nowhere")
    chat.phone.command("files", f"{folder}/a.txt")
    sent = chat.phone.wait_for(lambda: next((one.files for one in chat.shown() if one.files), None))
    assert sent == [("a.txt", b"content")]
