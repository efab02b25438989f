"""Messages of the fake Telegram: what passes and what is refused."""

from __future__ import annotations

import json
import threading
from typing import Any

import httpx
import pytest

from agent_testing import FakeTelegram
from tests.unit.testing.telegram.api import Api, acquainted

NOT_MODIFIED = "Bad Request: message is not modified"


X = {"text": "x"}


def entity(kind: str, offset: int, length: int) -> dict[str, Any]:
    return {"type": kind, "offset": offset, "length": length}


def button(label: str, data: str) -> dict[str, str]:
    return {"text": label, "callback_data": data}


def keyboard(*buttons: Any) -> dict[str, Any]:
    return {"inline_keyboard": [list(buttons)]}


def test_a_message_is_sent_edited_and_deleted(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    assert api.call("sendChatAction", chat_id=ann.id, action="typing") is True
    assert ann.chat.typing
    sent = api.call("sendMessage", chat_id=ann.id, text="hello", disable_notification=True)
    message = ann.chat.replies[0]
    assert (message.id, message.text, message.silent, ann.chat.typing) == (sent["message_id"], "hello", True, False)
    where = {"chat_id": ann.id, "message_id": message.id}
    edited = api.call("editMessageText", **where, text="hello, world", reply_markup=keyboard(button("Yes", "y")))
    assert (edited["text"], [content.text for content in message.edits]) == ("hello, world", ["hello"])
    assert message.buttons[0][0].label == "Yes"
    status, reason = api.refusal(
        "editMessageText", **where, text="hello, world", reply_markup=keyboard(button("Yes", "y"))
    )
    assert (status, reason.partition(":")[0]) == (400, "Bad Request")
    assert reason.startswith(NOT_MODIFIED)
    api.call("editMessageReplyMarkup", **where)
    assert (message.text, message.buttons) == ("hello, world", ())
    assert api.call("deleteMessage", **where) is True
    assert message.deleted
    assert api.refusal("editMessageText", **where, text="x") == (400, "Bad Request: message to edit not found")
    assert api.refusal("deleteMessage", **where) == (400, "Bad Request: message to delete not found")


def test_a_bot_edits_its_own_messages_only(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    where = {"chat_id": ann.id, "message_id": ann.chat.messages[0].id}
    assert api.refusal("editMessageText", **where, text="x") == (400, "Bad Request: message can't be edited")


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ({}, "message text is empty"),
        ({"text": ""}, "message text is empty"),
        ({"text": " \n "}, "text must be non-empty"),
        ({"text": "x" * 4097}, "message is too long"),
        ({"text": "😀" * 2049}, "message is too long"),
        ({"text": "x", "parse_mode": "bbcode"}, "unsupported parse_mode"),
        (
            {"text": "*x", "parse_mode": "MarkdownV2"},
            "can't parse entities: Can't find end of Bold entity at byte offset 0",
        ),
        (
            {"text": "x.", "parse_mode": "MarkdownV2"},
            "can't parse entities: Character '.' is reserved and must be escaped with the preceding '\\'",
        ),
        (
            {"text": "<b>x", "parse_mode": "HTML"},
            "can't parse entities: Can't find end tag corresponding to start tag \"b\"",
        ),
        ({**X, "entities": "["}, "can't parse entities JSON object"),
        ({**X, "entities": [entity("loud", 0, 1)]}, "can't parse MessageEntity: Unsupported type specified"),
        (
            {**X, "entities": [entity("bold", 0, 2)]},
            "entity beginning at UTF-16 offset 0 ends after the end of the text at UTF-16 offset 2",
        ),
        ({**X, "entities": [entity("bold", 1, 1)]}, "entity begins after the end of the text at UTF-16 offset 1"),
        (
            {"text": "a😀b", "entities": [entity("bold", 2, 2)]},
            "entity begins in a middle of a UTF-16 symbol at UTF-16 offset 2",
        ),
        (
            {"text": "a😀b", "entities": [entity("bold", 0, 2)]},
            "entity beginning at UTF-16 offset 0 ends in a middle of a UTF-16 symbol at UTF-16 offset 2",
        ),
        (
            {"text": "abcd", "entities": [entity("bold", 0, 2), entity("italic", 1, 2)]},
            "entity beginning at UTF-16 offset 1 overlaps the end of another entity",
        ),
        (
            {"text": "abcd", "entities": [entity("code", 0, 3), entity("bold", 1, 1)]},
            "entity beginning at UTF-16 offset 1 is inside of a code entity",
        ),
        ({**X, "reply_markup": "{"}, "can't parse reply keyboard markup JSON object"),
        ({**X, "reply_markup": "[]"}, "object expected as reply markup"),
        ({**X, "reply_markup": {"inline_keyboard": 1}}, 'field "inline_keyboard" must be of type Array'),
        ({**X, "reply_markup": {"inline_keyboard": [1]}}, 'field "inline_keyboard" must be an Array of Arrays'),
        (
            {**X, "reply_markup": keyboard(1)},
            "can't parse inline keyboard button: InlineKeyboardButton must be an Object",
        ),
        (
            {**X, "reply_markup": keyboard({"callback_data": "y"})},
            "can't parse inline keyboard button: Can't find field \"text\"",
        ),
        ({**X, "reply_markup": keyboard(button(" ", "y"))}, "inline keyboard button text must be non-empty"),
        (
            {**X, "reply_markup": keyboard({"text": "Yes"})},
            "can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard",
        ),
        ({**X, "reply_markup": keyboard(button("Yes", ""))}, "BUTTON_DATA_INVALID"),
        ({**X, "reply_markup": keyboard(button("Yes", "ü" * 33))}, "BUTTON_DATA_INVALID"),
        ({**X, "reply_markup": keyboard(*[button("Yes", "y")] * 9)}, "reply markup is too long"),
        ({**X, "reply_parameters": {"message_id": 99}}, "message to be replied not found"),
        ({**X, "reply_parameters": "{"}, "can't parse reply parameters JSON object"),
        ({"text": "x", "message_thread_id": 7}, "message thread not found"),
    ],
)
def test_telegram_refuses(telegram: FakeTelegram, api: Api, parameters: dict[str, Any], reason: str) -> None:
    ann = acquainted(telegram)
    assert api.refusal("sendMessage", chat_id=ann.id, **parameters) == (400, f"Bad Request: {reason}")
    assert ann.chat.replies == []


def test_the_longest_text_passes_after_its_markup_is_read(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    api.call("sendMessage", chat_id=ann.id, text="*" + "x" * 4096 + "*", parse_mode="MarkdownV2")
    assert [(entity.type, entity.length) for entity in ann.chat.replies[0].entities] == [("bold", 4096)]


def test_of_more_than_a_hundred_entities_the_rest_is_ignored(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    entities = [entity("bold", 2 * number, 1) for number in range(120)]
    api.call("sendMessage", chat_id=ann.id, text="x " * 120, entities=entities)
    assert len(ann.chat.replies[0].entities) == 100


def test_a_reply_names_its_message_or_passes_without(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    first = ann.chat.messages[0]
    api.call("sendMessage", chat_id=ann.id, text="a", reply_parameters={"message_id": first.id})
    api.call(
        "sendMessage",
        chat_id=ann.id,
        text="b",
        reply_parameters={"message_id": 99, "allow_sending_without_reply": True},
    )
    assert [message.reply_to for message in ann.chat.replies] == [first, None]


def test_chats_that_cannot_be_written_to_are_refused_by_name(telegram: FakeTelegram, api: Api) -> None:
    def refusal(chat: int | str) -> tuple[int, str]:
        return api.refusal("sendMessage", chat_id=chat, text="x")

    ann, bob = acquainted(telegram), telegram.create_user("Bob")
    assert refusal("") == (400, "Bad Request: chat_id is empty")
    assert refusal(12345) == refusal("@nobody_x") == (400, "Bad Request: chat not found")
    assert refusal(bob.chat.id) == (403, "Forbidden: bot can't initiate conversation with a user")
    ann.block()
    assert refusal(ann.id) == (403, "Forbidden: bot was blocked by the user")
    ann.unblock()
    ann.deactivate()
    assert refusal(ann.id) == (403, "Forbidden: user is deactivated")
    for group, name in (
        (telegram.create_group("Team", bob), "group"),
        (telegram.create_supergroup("Team", bob), "supergroup"),
    ):
        group.kick(telegram.bot)
        assert refusal(group.id) == (403, f"Forbidden: bot was kicked from the {name} chat")
        group.add(telegram.bot, "left")
        assert refusal(group.id) == (403, f"Forbidden: bot is not a member of the {name} chat")
        group.add(telegram.bot, "restricted")
        assert refusal(group.id) == (400, "Bad Request: not enough rights to send text messages to the chat")
    group = telegram.create_group("Old", bob)
    upgraded = group.migrate()
    answer = api.answer("sendMessage", chat_id=group.id, text="x").json()
    assert answer["parameters"] == {"migrate_to_chat_id": upgraded.id}
    gone = telegram.create_group("Gone", bob)
    gone.delete()
    assert refusal(gone.id) == (403, "Forbidden: the group chat was deleted")


def test_topics_keep_their_messages_and_a_deleted_one_is_not_found(telegram: FakeTelegram, api: Api) -> None:
    ann = telegram.create_user("Ann")
    group = telegram.create_supergroup("Team", ann, topics=True, bot="administrator")
    topic = group.create_topic("Plans", telegram.bot)
    ann.write(group, "hello", topic=topic)
    seen = api.updates()[-1]["message"]
    assert seen["message_thread_id"] == seen["reply_to_message"]["message_id"] == topic
    assert seen["reply_to_message"]["forum_topic_created"]["name"] == "Plans"
    api.call("sendMessage", chat_id=group.id, message_thread_id=topic, text="hi")
    assert [message.topic for message in group.messages] == [topic, topic]
    group.delete_topic(topic)
    assert group.visible == []
    missing = api.refusal("sendMessage", chat_id=group.id, message_thread_id=topic, text="hi")
    assert missing == (400, "Bad Request: message thread not found")
    with pytest.raises(ValueError, match="has no topic"):
        ann.write(group, "hello", topic=topic)


def test_a_forged_mention_shows_in_what_telegram_detects(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    api.call(
        "sendMessage",
        chat_id=ann.id,
        text=f'@ann_x <code>@ann_x</code> <a href="tg://user?id={ann.id}">you</a>',
        parse_mode="HTML",
    )
    found = ann.chat.replies[0].detected
    assert [(entity.type, entity.offset) for entity in found] == [("mention", 0), ("text_mention", 14)]
    assert found[1].user is ann


def test_a_press_waits_for_its_acknowledgement(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    api.call("sendMessage", chat_id=ann.id, text="Sure?", reply_markup=keyboard(button("Yes", "y:1")))

    offset = api.updates()[-1]["update_id"] + 1

    def acknowledge() -> None:
        query = api.updates(offset=offset, timeout=10)[0]["callback_query"]
        api.call("answerCallbackQuery", callback_query_id=query["id"], text="Done", show_alert=True)

    bot = threading.Thread(target=acknowledge)
    bot.start()
    press = ann.press(ann.chat.replies[0], "Yes")
    bot.join()
    assert (press.data, press.answer and press.answer.text, press.answer and press.answer.alert) == (
        "y:1",
        "Done",
        True,
    )
    too_old = (400, "Bad Request: query is too old and response timeout expired or query ID is invalid")
    assert api.refusal("answerCallbackQuery", callback_query_id=press.id) == too_old
    with pytest.raises(LookupError, match="no button 'No'"):
        ann.press(ann.chat.replies[0], "No")
    with pytest.raises(ValueError, match="Bob is not in 'Ann'"):
        acquainted(telegram, "Bob").press(ann.chat.replies[0], "Yes")
    with pytest.raises(TimeoutError, match="was not acknowledged"):
        ann.press(ann.chat.replies[0], "y:1", seconds=0)


def test_a_press_that_was_never_a_button_can_be_forged(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    ann.press_forged(ann.chat.messages[0], "a:0:always")
    assert api.updates()[-1]["callback_query"]["data"] == "a:0:always"


def test_drafts_are_shown_until_the_message_comes(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    api.call("sendMessageDraft", chat_id=ann.id, draft_id=1, text="hel")
    assert ann.chat.drafts[1].text == "hel"
    api.call("sendMessage", chat_id=ann.id, text="hello")
    assert ann.chat.drafts == {}
    assert api.refusal("sendMessageDraft", chat_id=ann.id, draft_id=0, text="x")[0] == 400


def test_reactions_are_those_that_telegram_has(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    where = {"chat_id": ann.id, "message_id": ann.chat.messages[0].id}
    api.call("setMessageReaction", **where, reaction=[{"type": "emoji", "emoji": "👀"}])
    assert ann.chat.messages[0].reactions == ("👀",)
    invalid = api.refusal("setMessageReaction", **where, reaction=[{"type": "emoji", "emoji": "🧀"}])
    assert invalid == (400, "Bad Request: REACTION_INVALID")


def test_tokens_and_methods_that_telegram_does_not_know(telegram: FakeTelegram, api: Api) -> None:
    assert httpx.get(f"{telegram.url}/bot123:abc/getMe").json()["error_code"] == 401
    assert httpx.get(f"{telegram.url}/botabc/getMe").json() == {
        "ok": False,
        "error_code": 404,
        "description": "Not Found",
    }
    assert httpx.get(f"{telegram.url}/").status_code == 404
    assert api.refusal("getWeather") == (404, "Not Found")
    assert httpx.get(f"{telegram.url}/bot{telegram.token}/GETME").json()["result"]["username"] == "helper_bot"
    telegram.revoke_token()
    assert api.refusal("getMe") == (401, "Unauthorized")


def test_commands_are_kept_by_scope_and_language(telegram: FakeTelegram, api: Api) -> None:
    commands = [{"command": "new", "description": "Begin a new session"}]
    api.call("setMyCommands", commands=commands)
    api.call("setMyCommands", commands=[], scope={"type": "all_group_chats"}, language_code="de")
    assert telegram.commands == {"new": "Begin a new session"}
    assert api.call("getMyCommands") == commands
    assert telegram.commands_for('{"type":"all_group_chats"}', "de") == {}
    for command, reason in (
        ({"command": "New!", "description": "x"}, "BOT_COMMAND_INVALID"),
        ({"command": "new", "description": ""}, "BOT_COMMAND_DESCRIPTION_INVALID"),
    ):
        assert api.refusal("setMyCommands", commands=[command]) == (400, f"Bad Request: {reason}")
    api.call("deleteMyCommands")
    assert telegram.commands == {}


def test_parameters_may_be_a_query_a_form_or_json(telegram: FakeTelegram) -> None:
    ann, url = acquainted(telegram), f"{telegram.url}/bot{telegram.token}/sendMessage"
    fields = {"chat_id": str(ann.id), "text": "hello"}
    answers = [httpx.get(url, params=fields), httpx.post(url, data=fields), httpx.post(url, json=fields)]
    assert [answer.json()["ok"] for answer in answers] == [True] * 3
    broken = httpx.post(url, content=b"{", headers={"content-type": "application/json"})
    assert broken.json()["description"] == "Bad Request: can't parse JSON object"


@pytest.mark.parametrize(
    "parameters", [{"text": "\ud800"}, {"text": "x", "reply_markup": keyboard(button("Yes", "\ud800"))}]
)
def test_half_of_a_surrogate_pair_is_refused(telegram: FakeTelegram, parameters: dict[str, Any]) -> None:
    body = json.dumps({"chat_id": acquainted(telegram).id, **parameters})  # as an escape, which is ASCII
    headers = {"content-type": "application/json"}
    answer = httpx.post(f"{telegram.url}/bot{telegram.token}/sendMessage", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["description"] == "Bad Request: strings must be encoded in UTF-8"
