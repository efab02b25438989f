"""What people do on Telegram, read from the updates of the Bot API."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from frontends.platform import Chat, IncomingFile, Quote, Sender, Update
from frontends.telegram.incoming.updates import QUOTE_CHARACTERS, read_update, read_updates

from .raw import ANN, GROUP, ME, PRIVATE, entity, message, update

PHOTO = {"file_id": "s", "file_unique_id": "s", "width": 9, "height": 9}


def read(**fields: Any) -> Update:
    found = read_update(update(**fields), ME)
    assert found is not None
    return found


def test_a_private_message() -> None:
    assert read(text="hello") == Update(
        id="100",
        kind="message",
        chat=Chat("1001", private=True, title="Ann"),
        sender=Sender("1001", "Ann Lee"),
        message_id="5",
        order=100,
        text="hello",
    )


def test_an_edit_has_an_id_of_its_own_and_names_the_message() -> None:
    found = read(number=101, kind="edited_message", body=message("hello!", edit_date=1_800_000_009))
    assert (found.id, found.kind, found.message_id, found.text) == ("101", "edit", "5", "hello!")


def test_a_press_of_a_button() -> None:
    body = {"id": "9", "from": ANN, "chat_instance": "1", "message": message("Allow?", chat=GROUP), "data": "a:1:once"}
    found = read(kind="callback_query", body=body)
    assert (found.kind, found.text, found.interaction, found.message_id) == ("button", "a:1:once", "9", "5")
    assert found.chat.id == "-1000000000005"
    assert found.sender.id == "1001"
    found = read(kind="callback_query", body={**body, "id": 9})
    assert found.interaction == "9"


def test_a_press_under_a_message_that_is_too_old_to_be_shown() -> None:
    old = {"chat": PRIVATE, "message_id": 5, "date": 0}
    body = {"id": "9", "from": ANN, "chat_instance": "1", "message": old, "data": "x"}
    found = read(kind="callback_query", body=body)
    assert (found.chat.id, found.message_id) == ("1001", "5")


@pytest.mark.parametrize(
    "body",
    [
        {"id": "9", "from": ANN, "chat_instance": "1", "inline_message_id": "1", "data": "x"},
        {"id": "9", "from": ANN, "chat_instance": "1", "message": message("play"), "game_short_name": "x"},
    ],
)
def test_a_press_that_no_message_of_the_bot_has_is_passed_over(body: dict[str, Any]) -> None:
    assert read_update(update(kind="callback_query", body=body), ME) is None


@pytest.mark.parametrize(
    ("text", "kind", "part", "addressed", "rest"),
    [
        ("@helper_bot what's up?", "mention", "@helper_bot", True, "what's up?"),
        ("@Helper_Bot", "mention", "@Helper_Bot", True, ""),
        ("👩‍👩‍👧 hey @helper_bot what's up", "mention", "@helper_bot", True, "👩‍👩‍👧 hey what's up"),
        ("line\n@helper_bot line", "mention", "@helper_bot", True, "line\nline"),
        ("@helper_bots are nice", "mention", "@helper_bots", False, "@helper_bots are nice"),
        ("/new", "bot_command", "/new", True, "/new"),
        ("/new@helper_bot now", "bot_command", "/new@helper_bot", True, "/new now"),
        ("/new@other_bot now", "bot_command", "/new@other_bot", False, "/new@other_bot now"),
        ("run /usr now", "bot_command", "/usr", False, "run /usr now"),
        ("mail x@helper_bot", "url", "x@helper_bot", False, "mail x@helper_bot"),
    ],
)
def test_who_is_addressed_in_a_group(text: str, kind: str, part: str, addressed: bool, rest: str) -> None:
    found = read(text=text, chat=GROUP, entities=[entity(kind, text, part)])
    assert (found.addressed, found.text) == (addressed, rest)


@pytest.mark.parametrize(
    ("text", "addressed", "rest"),
    [
        ("👩‍👩‍👧 hey @helper_bot what's up", True, "👩‍👩‍👧 hey what's up"),
        ("/new@helper_bot now", True, "/new now"),
        ("/new@other_bot now", False, "/new@other_bot now"),
        ("mail x@helper_bot", False, "mail x@helper_bot"),
        ("run /usr or a/new", False, "run /usr or a/new"),
    ],
)
def test_a_server_that_marks_nothing_in_texts_is_understood(text: str, addressed: bool, rest: str) -> None:
    found = read(text=text, chat=GROUP)
    assert (found.addressed, found.text) == (addressed, rest)
    caption = read(photo=[{"file_id": "s", "file_unique_id": "s", "width": 9, "height": 9}], caption=text, chat=GROUP)
    assert caption.addressed == addressed


def test_a_mention_by_name_without_a_username() -> None:
    text = "Helper, look"
    marked = entity("text_mention", text, "Helper", user={"id": 7, "is_bot": True, "first_name": "Helper"})
    found = read(text=text, chat=GROUP, entities=[marked])
    assert (found.addressed, found.text) == (True, ", look")


def test_a_caption_is_read_as_a_text() -> None:
    photo = [{"file_id": "s", "file_unique_id": "s", "width": 9, "height": 9}]
    caption = "@helper_bot what is this?"
    found = read(photo=photo, caption=caption, caption_entities=[entity("mention", caption, "@helper_bot")], chat=GROUP)
    assert (found.addressed, found.text, len(found.files)) == (True, "what is this?", 1)
    linked = read(photo=photo, caption="read it", caption_entities=[LINK])
    assert linked.text == "read it (https://a.example)"


def test_a_reply_to_the_bot_addresses_it() -> None:
    mine = {**message("I am here", chat=GROUP), "from": ME.to_dict()}
    assert read(text="good", chat=GROUP, reply_to_message=mine).addressed
    found = read(text="good", chat=GROUP, reply_to_message=message("me", chat=GROUP))
    assert (found.addressed, found.reply_to) == (False, "5")
    command = [{"type": "bot_command", "offset": 0, "length": 12}]
    assert not read(text="/x@other_bot", chat=GROUP, reply_to_message=mine, entities=command).addressed


def test_a_topic_is_a_chat_of_its_own_and_its_opening_is_no_message_to_reply_to() -> None:
    created = message(chat=GROUP, forum_topic_created={"name": "Bugs", "icon_color": 1})
    opening = {**created, "from": ME.to_dict()}
    found = read(text="hi", chat=GROUP, message_thread_id=5, is_topic_message=True, reply_to_message=opening)
    assert (found.chat.id, found.reply_to, found.addressed) == ("-1000000000005/5", None, False)
    assert read(text="hi", chat=GROUP, message_thread_id=5).chat.id == "-1000000000005/5"
    thread = read(text="hi", chat=GROUP, message_thread_id=5, reply_to_message=message("first", chat=GROUP))
    assert (thread.chat.id, thread.reply_to) == ("-1000000000005", "5")
    assert (found.quote, thread.quote) == (None, Quote("first", Sender("1001", "Ann Lee")))


BEN: dict[str, Any] = {"id": 1002, "is_bot": False, "first_name": "Ben"}
SENDER_BEN = Sender("1002", "Ben")
CHANNEL: dict[str, Any] = {"id": -9, "type": "channel", "title": "News"}
LINK = entity("text_link", "read it", "it", url="https://a.example")
SELECTED = {"text": "error 503", "position": 15, "is_manual": True}
ELSEWHERE = {"origin": {"type": "hidden_user", "date": 1, "sender_user_name": "Zoe"}}


def by_ben(text: str | None = None, **fields: Any) -> dict[str, Any]:
    return message(text, **{"from": BEN}, **fields)


@pytest.mark.parametrize(
    ("fields", "quote"),
    [
        ({"reply_to_message": by_ben("failed: error 503")}, Quote("failed: error 503", SENDER_BEN)),
        (
            {"reply_to_message": by_ben("failed: error 503"), "quote": SELECTED},
            Quote("error 503", SENDER_BEN, part=True),
        ),
        ({"reply_to_message": {**message("Yes"), "from": ME.to_dict()}}, Quote("Yes", Sender("7", "Helper"), own=True)),
        ({"reply_to_message": by_ben(photo=[PHOTO], caption="look")}, Quote("look", SENDER_BEN)),
        ({"reply_to_message": by_ben("read it", entities=[LINK])}, Quote("read it (https://a.example)", SENDER_BEN)),
        (
            {"reply_to_message": by_ben("read it"), "quote": {"text": "read it", "position": 0, "entities": [LINK]}},
            Quote("read it (https://a.example)", SENDER_BEN, part=True),
        ),
        ({"reply_to_message": by_ben(photo=[PHOTO])}, Quote("[a file: photo-5.jpg]", SENDER_BEN)),
        ({"reply_to_message": by_ben("news", sender_chat=CHANNEL)}, Quote("news", Sender("-9", "News"))),
        ({"reply_to_message": by_ben("\ud83d" * 9999)}, Quote("\ufffd" * QUOTE_CHARACTERS, SENDER_BEN)),
        ({"external_reply": ELSEWHERE, "quote": SELECTED}, Quote("error 503", Sender("", "Zoe"), part=True)),
        ({"external_reply": ELSEWHERE}, None),
        ({"reply_to_message": by_ben(new_chat_members=[ANN])}, None),
    ],
)
def test_what_a_message_replies_to_comes_with_it(fields: dict[str, Any], quote: Quote | None) -> None:
    assert read(text="what does this mean?", chat=GROUP, **fields).quote == quote


@pytest.mark.parametrize(
    "fields",
    [
        {"sender_chat": GROUP, "from": {"id": 1087968824, "is_bot": True, "first_name": "Group"}},
        {"sender_chat": {"id": -1000000000009, "type": "channel", "title": "News"}},
        {"from": {"id": 8, "is_bot": True, "first_name": "Other"}},
        {"from": None},
    ],
)
def test_what_no_person_wrote_in_their_own_name_is_not_for_the_bot(fields: dict[str, Any]) -> None:
    text = "/new"
    found = read(text=text, chat=GROUP, entities=[entity("bot_command", text, text)], **fields)
    assert not found.addressed
    assert found.sender.id != str(ANN["id"])


def test_a_forwarded_message_says_whose_words_it_has() -> None:
    origin = {"type": "user", "date": 1, "sender_user": {"id": 3, "is_bot": False, "first_name": "Eve\nX"}}
    assert read(text="/new", forward_origin=origin) == replace(read(text="/new"), forwarded_from="Eve X")
    hidden = {"type": "hidden_user", "date": 1, "sender_user_name": "Zoe"}
    assert read(text="hi", forward_origin=hidden).forwarded_from == "Zoe"
    unheard = {"type": "planet", "date": 1}
    assert read(text="hi", forward_origin=unheard).forwarded_from == "an unknown sender"


FILE = {"file_id": "F", "file_unique_id": "U", "file_size": 3}


@pytest.mark.parametrize(
    ("fields", "name", "media_type"),
    [
        ({"document": {**FILE, "file_name": "a.pdf", "mime_type": "application/pdf"}}, "a.pdf", "application/pdf"),
        ({"document": FILE}, "document-5", "application/octet-stream"),
        ({"voice": {**FILE, "duration": 1}}, "voice-5.ogg", "audio/ogg"),
        ({"audio": {**FILE, "duration": 1, "file_name": "a.m4a", "mime_type": "audio/mp4"}}, "a.m4a", "audio/mp4"),
        ({"video": {**FILE, "duration": 1, "width": 1, "height": 1}}, "video-5.mp4", "video/mp4"),
        ({"video_note": {**FILE, "duration": 1, "length": 1}}, "video-5.mp4", "video/mp4"),
        (
            {"animation": {**FILE, "duration": 1, "width": 1, "height": 1}, "document": FILE},
            "animation-5.mp4",
            "video/mp4",
        ),
    ],
)
def test_files(fields: dict[str, Any], name: str, media_type: str) -> None:
    assert list(read(**fields).files) == [IncomingFile("F", name, media_type, 3)]


def test_the_parts_of_an_album_name_it() -> None:
    def part(number: int, album: str = "77", **fields: Any) -> dict[str, Any]:
        photo = [{**FILE, "file_id": str(number), "width": 9, "height": 9}]
        shown = message(chat=GROUP, photo=photo, media_group_id=album, **fields)
        return update(number, body={**shown, "message_id": number})

    batch = [part(4), part(1), part(2, caption="@helper_bot look"), part(3, album="78"), update(5, text="hi")]
    found = list(read_updates(batch, ME))
    assert [(one.id, one.album) for one in found] == [("1", "77"), ("2", "77"), ("3", "78"), ("4", "77"), ("5", None)]
    assert [one.addressed for one in found] == [False, True, False, False, True]
    edit = read_update({"update_id": 6, "edited_message": part(6)["message"]}, ME)
    assert edit is not None
    assert edit.album is None
    assert len(list(read_updates([{**update(6), "message": {"media_group_id": []}}, part(7)], ME))) == 1


def test_the_largest_size_of_a_photo_counts() -> None:
    sizes = [{**FILE, "file_id": f"{side}", "width": side, "height": side} for side in (90, 800, 320)]
    assert list(read(photo=sizes).files) == [IncomingFile("800", "photo-5.jpg", "image/jpeg", 3)]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"location": {"latitude": 52.5, "longitude": 13.4}}, "[a place: 52.50000, 13.40000]"),
        ({"contact": {"phone_number": "+49", "first_name": "Bo"}}, "[a contact: Bo +49]"),
        (
            {
                "sticker": {
                    **FILE, "type": "regular", "width": 1, "height": 1, "is_animated": False, "is_video": False,
                    "emoji": "👍",
                }
            },
            "👍",
        ),
    ],
)  # fmt: skip
def test_what_is_neither_text_nor_file_is_described(fields: dict[str, Any], text: str) -> None:
    assert read(**fields).text == text


@pytest.mark.parametrize("fields", [{"new_chat_members": [ANN]}, {"pinned_message": message("x")}, {"unheard_of": {}}])
def test_what_nobody_said_is_passed_over(fields: dict[str, Any]) -> None:
    assert read_update(update(**fields), ME) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"chat": {"id": -4001, "type": "group", "title": "Team"}, "migrate_to_chat_id": GROUP["id"]},
        {"chat": GROUP, "migrate_from_chat_id": -4001},
    ],
)
def test_a_group_that_becomes_a_supergroup_is_a_move_from_its_number(fields: dict[str, Any]) -> None:
    found = read(**fields)
    assert (found.kind, found.chat.id, found.text) == ("move", "-4001", str(GROUP["id"]))


def test_a_place_that_is_shared_live_is_said_once() -> None:
    place: dict[str, Any] = {"location": {"latitude": 52.5, "longitude": 13.4, "live_period": 3600}}
    assert read(**place).text.startswith("[a place:")
    assert read_update(update(kind="edited_message", body=message(edit_date=1_800_000_009, **place)), ME) is None


def test_half_a_surrogate_pair_does_not_reach_our_disk() -> None:
    text = "\ud83d @helper_bot \udc00"
    found = read(text=text, chat=GROUP, entities=[{"type": "mention", "offset": 2, "length": 11}])
    assert found.text.encode()
    assert found.addressed
    assert read(text="\ud83d", chat={**PRIVATE, "first_name": "\udc00"}).chat.title.encode()


@pytest.mark.parametrize("offset", [-5, 0, 3, 4000])
def test_entities_beyond_the_text_do_no_harm(offset: int) -> None:
    assert read(text="hi", chat=GROUP, entities=[{"type": "mention", "offset": offset, "length": 4000}]).text == "hi"


def test_a_batch_is_sorted_and_what_cannot_be_read_is_named_and_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    broken = {"update_id": 2, "message": {"message_id": "x"}}
    odd = {"update_id": 4, "message": 17}
    batch = [update(5), broken, odd, {"update_id": 3, "poll": {}}, update(1, text="first"), {}]
    with caplog.at_level(logging.WARNING):
        found = list(read_updates([{**one} for one in batch] + [update(6, text="last")], ME))
    assert [one.id for one in found] == ["1", "6"]
    assert [record.facts["update_id"] for record in caplog.records] == [-1, 2, 4]  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    "fields",
    [
        {"message_id": "x"},
        {"message_id": True},
        {"message_id": 2**63},
        {"chat": {**PRIVATE, "id": "x"}},
        {"chat": {**PRIVATE, "id": -(2**63)}},
        {"from": {**ANN, "id": "1001"}},
        {"from": None, "chat": {**GROUP, "id": 1.5}},
        {"message_thread_id": "x", "is_topic_message": True},
        {"reply_to_message": {**message("x"), "message_id": [5]}},
        {"voice": {"file_id": "x", "file_unique_id": "x", "duration": 1, "file_size": "many"}},
    ],
)
def test_what_could_not_be_stored_or_read_again_is_passed_over(fields: dict[str, Any]) -> None:
    """A stored update that cannot be read would block its chat."""
    good = update(7, text="hello")
    assert [one.id for one in read_updates([update(6, body=message("hi", **fields)), good], ME)] == ["7"]


def test_an_update_whose_number_is_too_high_is_passed_over() -> None:
    assert list(read_updates([update(2**63, text="hi")], ME)) == []


def test_fields_of_a_later_version_of_the_api_do_not_matter() -> None:
    found = read(text="hi", wholly_new={"a": [1]}, entities=[{"type": "unheard_of", "offset": 0, "length": 2, "x": 1}])
    assert found.text == "hi"
