"""Buttons, menus and commands, answered over REST within three seconds or refused."""

from __future__ import annotations

from typing import Any

import pytest

from agent_testing.discord import Action, FakeDiscord, RateLimits, User

from .conftest import RawBot

BUTTONS = [
    {
        "type": 1,
        "components": [
            {"type": 2, "style": 3, "custom_id": "a:1:once", "label": "Once"},
            {"type": 2, "style": 4, "custom_id": "a:1:no", "label": "Reject", "disabled": True},
        ],
    }
]
MENU = [{"type": 1, "components": [{"type": 3, "custom_id": "m", "options": [{"label": "A", "value": "a"}]}]}]


def ask(fake: FakeDiscord, bot: RawBot, components: Any = BUTTONS) -> tuple[User, Any]:
    ada = fake.user("ada")
    bot.send(ada.dm(), "May I?", components=components)
    return ada, ada.dm().messages[-1]


def answer(bot: RawBot, action: Action, kind: int, data: Any = None, status: int = 204, **more: Any) -> Any:
    path = f"/interactions/{action.interaction.id}/{action.interaction.token}/callback"
    return bot.call("POST", path, {"type": kind, "data": data}, status, **more)


def webhook(bot: RawBot, action: Action, rest: str = "") -> str:
    return f"/webhooks/{bot.fake.bot.id}/{action.interaction.token}{rest}"


def test_an_update_changes_the_message_with_the_button(fake: FakeDiscord, bot: RawBot) -> None:
    ada, message = ask(fake, bot)
    action = ada.press(message, "Once")
    answer(bot, action, 7, {"content": "Decided.", "components": []})
    assert action.wait() == "update"
    assert (message.content, message.buttons, action.message) == ("Decided.", [], message)


def test_a_deferred_update_lets_the_bot_edit_the_message_later(fake: FakeDiscord, bot: RawBot) -> None:
    ada, message = ask(fake, bot)
    action = ada.press(message, "a:1:once")
    answer(bot, action, 6)
    assert (action.wait(), message.content) == ("deferred-update", "May I?")
    bot.call("PATCH", webhook(bot, action, "/messages/@original"), {"content": "Decided."})
    assert message.content == "Decided."


def test_an_ephemeral_answer_is_seen_by_the_one_who_pressed(fake: FakeDiscord, bot: RawBot) -> None:
    ada, bob = fake.user("ada"), fake.user("bob")
    general = fake.text_channel(fake.guild("team", [ada, bob]), "general")
    bot.send(general, "May I?", components=BUTTONS)
    action = bob.press(general.messages[0], "Once")
    done = answer(bot, action, 4, {"content": "Not you.", "flags": 64}, 200, params={"with_response": "1"})
    assert done["interaction"]["response_message_ephemeral"] is True
    [seen] = bob.ephemeral
    assert (seen.content, seen.ephemeral, ada.ephemeral, len(general.messages)) == ("Not you.", True, [], 1)
    assert bot.refused("GET", f"/channels/{general.id}/messages/{seen.id}") == (404, 10008)
    bot.call("DELETE", webhook(bot, action, "/messages/@original"), status=204)
    assert bob.ephemeral == []


def test_a_deferred_answer_is_written_by_an_edit_or_by_what_follows(fake: FakeDiscord, bot: RawBot) -> None:
    ada, message = ask(fake, bot)
    first, second = ada.press(message, "Once"), ada.press(message, "Once")
    for action in (first, second):
        answer(bot, action, 5)
        assert action.message is not None
        assert action.message.loading
    bot.call("PATCH", webhook(bot, first, "/messages/@original"), {"content": "edited"})
    bot.call("POST", webhook(bot, second), {"content": "followed"})
    bot.call("POST", webhook(bot, second), {"content": "followed again"})
    assert first.wait_for_message(1).content == "edited"
    assert [each.content for each in second.messages] == ["followed", "followed again"]
    assert [each.content for each in ada.dm().messages] == ["May I?", "edited", "followed", "followed again"]


def test_an_interaction_is_acknowledged_once_and_in_time() -> None:
    with FakeDiscord(limits=RateLimits.loose()) as fake:
        bot = RawBot(fake)
        with bot.http:
            ada, message = ask(fake, bot)
            action = ada.press(message, "Once")
            path = f"/interactions/{action.interaction.id}/{action.interaction.token}/callback"
            assert bot.refused("POST", webhook(bot, action), {"content": "early"}) == (404, 10015)
            bot.call("POST", path, {"type": 6}, 204)
            assert bot.refused("POST", path, {"type": 6}) == (400, 40060)
    with FakeDiscord(limits=RateLimits.loose(), interaction_seconds=0.05) as fake:
        bot = RawBot(fake)
        with bot.http:
            ada, message = ask(fake, bot)
            late = ada.press(message, "Once")
            with pytest.raises(TimeoutError, match="this interaction failed"):
                late.wait(0.25)
            path = f"/interactions/{late.interaction.id}/{late.interaction.token}/callback"
            assert bot.refused("POST", path, {"type": 6}) == (404, 10062)
            assert bot.refused("POST", "/interactions/1/no-token/callback", {"type": 6}) == (404, 10062)
            assert bot.refused("POST", f"/webhooks/{fake.bot.id}/no-token", {"content": "x"}) == (404, 10015)


def test_an_answer_is_checked_as_a_message_is(fake: FakeDiscord, bot: RawBot) -> None:
    ada, message = ask(fake, bot)
    action = ada.press(message, "Once")
    path = f"/interactions/{action.interaction.id}/{action.interaction.token}/callback"
    assert bot.refused("POST", path, {"type": 4, "data": {"content": "x" * 2001}}) == (400, 50035)
    assert bot.refused("POST", path, {"type": 4, "data": {}}) == (400, 50006)
    assert bot.refused("POST", path, {"type": 99}) == (400, 50035)
    assert action.answer is None


def test_people_press_what_they_see(fake: FakeDiscord, bot: RawBot) -> None:
    ada, message = ask(fake, bot)
    for label in ("Reject", "No such"):
        with pytest.raises(ValueError, match=label):
            ada.press(message, label)
    with pytest.raises(ValueError, match="does not see"):
        fake.user("bob").press(message, "Once")
    assert ada.press_gone(message, "a:0:old").interaction.data["custom_id"] == "a:0:old"


def test_a_menu_gives_the_values_that_were_chosen(fake: FakeDiscord, bot: RawBot) -> None:
    ada, message = ask(fake, bot, MENU)
    action = ada.select(message, ["a"])
    assert action.interaction.data == {"custom_id": "m", "component_type": 3, "values": ["a"]}
    with pytest.raises(ValueError, match="offers"):
        ada.select(message, ["b"])


def test_commands_are_registered_and_called_with_their_options(fake: FakeDiscord, bot: RawBot) -> None:
    option = {"type": 3, "name": "title", "description": "Its name", "required": True}
    commands = [
        {"name": "new", "description": "A new session", "options": [option]},
        {"name": "model", "description": "Models", "options": [{"type": 1, "name": "list", "description": "All"}]},
    ]
    path = f"/applications/{fake.bot.id}/commands"
    first = bot.call("PUT", path, commands)
    assert [each["name"] for each in fake.bot.commands] == ["new", "model"]
    assert [each["id"] for each in bot.call("PUT", path, commands)] == [each["id"] for each in first]
    assert len(bot.call("GET", path)) == 2
    ada = fake.user("ada")
    action = ada.command("new", title="work")
    assert action.interaction.data["options"] == [{"name": "title", "type": 3, "value": "work"}]
    assert ada.command("model list").interaction.data["options"] == [{"name": "list", "type": 1, "options": []}]
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("gone", {}),
        ("new", {}),
        ("new", {"title": 1}),
        ("new", {"title": "x", "b": 1}),
        ("model", {}),
    ]
    for line, options in wrong:
        with pytest.raises(ValueError, match=r"option|among|subcommands"):
            ada.command(line, **options)


@pytest.mark.parametrize(
    "commands",
    [
        [{"name": "Upper", "description": "x"}],
        [{"name": "a b", "description": "x"}],
        [{"name": "x" * 33, "description": "x"}],
        [{"name": "x", "description": ""}],
        [{"name": "x", "description": "x" * 101}],
        [{"name": "x", "description": "x"}] * 2,
        [{"name": f"x{number}", "description": "x"} for number in range(101)],
        [{"name": "x", "description": "x", "options": [{"type": 3, "name": "y"}]}],
    ],
)
def test_commands_that_discord_does_not_take_are_refused(fake: FakeDiscord, bot: RawBot, commands: Any) -> None:
    assert bot.refused("PUT", f"/applications/{fake.bot.id}/commands", commands) == (400, 50035)
    assert bot.refused("PUT", "/applications/1/commands", []) == (403, 20012)
