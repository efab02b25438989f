"""Files of the fake Telegram, both ways."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from agent_testing import FakeTelegram
from tests.unit.testing.telegram.api import Api, acquainted

MEBIBYTE = 1024 * 1024


def upload(telegram: FakeTelegram, method: str, field: str, content: bytes, **fields: str) -> dict[str, Any]:
    url = f"{telegram.url}/bot{telegram.token}/{method}"
    return httpx.post(url, data=fields, files={field: ("report.txt", content, "text/plain")}, timeout=60).json()


def test_a_file_of_a_person_is_downloaded(telegram: FakeTelegram, api: Api) -> None:
    ann = telegram.create_user("Ann")
    ann.send_document(ann.chat, "notes.txt", b"hello", media_type="text/plain", caption="my notes")
    ann.send_photo(ann.chat, b"\xff\xd8")
    ann.send_voice(ann.chat, b"OggS")
    document, photo, voice = (update["message"] for update in api.updates())
    assert (document["document"]["file_name"], document["caption"]) == ("notes.txt", "my notes")
    assert "text" not in document
    for sent, content in (
        (document["document"], b"hello"),
        (photo["photo"][0], b"\xff\xd8"),
        (voice["voice"], b"OggS"),
    ):
        path = api.call("getFile", file_id=sent["file_id"])["file_path"]
        assert httpx.get(f"{telegram.url}/file/bot{telegram.token}/{path}").content == content
    assert httpx.get(f"{telegram.url}/file/bot{telegram.token}/nothing").status_code == 404
    assert httpx.get(f"{telegram.url}/file/bot1:x/{path}").status_code == 401
    telegram.fail("file", "cut_before")
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{telegram.url}/file/bot{telegram.token}/{path}")


def test_a_large_file_cannot_be_downloaded(telegram: FakeTelegram, api: Api) -> None:
    ann = telegram.create_user("Ann")
    ann.send_document(ann.chat, "film.mp4", b"", size=20 * MEBIBYTE + 1)
    file_id = api.updates()[0]["message"]["document"]["file_id"]
    assert api.refusal("getFile", file_id=file_id) == (400, "Bad Request: file is too big")
    assert api.refusal("getFile", file_id="x") == (400, "Bad Request: invalid file_id")
    assert api.refusal("getFile") == (400, "Bad Request: file_id not specified")


@pytest.mark.parametrize("kind", ["document", "photo", "voice"])
def test_the_bot_sends_a_file(telegram: FakeTelegram, kind: str) -> None:
    ann = acquainted(telegram)
    method = f"send{kind.capitalize()}"
    sent = upload(telegram, method, kind, b"abc", chat_id=str(ann.id), caption="*here*", parse_mode="MarkdownV2")
    message = ann.chat.replies[0]
    assert sent["result"]["message_id"] == message.id
    assert message.file
    assert (message.file.kind, message.file.name, message.file.content) == (kind, "report.txt", b"abc")
    assert (message.text, message.entities[0].type) == ("here", "bold")
    attached = upload(telegram, method, "part", b"def", chat_id=str(ann.id), **{kind: "attach://part"})
    assert attached["ok"]
    again = upload(telegram, method, "unused", b"x", chat_id=str(ann.id), **{kind: message.file.id})
    assert again["ok"]
    assert [reply.file and reply.file.content for reply in ann.chat.replies] == [b"abc", b"def", b"abc"]


def test_a_caption_is_edited_and_a_text_is_not(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    upload(telegram, "sendDocument", "document", b"abc", chat_id=str(ann.id))
    where = {"chat_id": ann.id, "message_id": ann.chat.replies[0].id}
    api.call("editMessageCaption", **where, caption="new")
    assert (ann.chat.replies[0].text, ann.chat.replies[0].file is not None) == ("new", True)
    no_text = api.refusal("editMessageText", **where, text="x")
    assert no_text == (400, "Bad Request: there is no text in the message to edit")
    too_long = api.refusal("editMessageCaption", **where, caption="x" * 1025)
    assert too_long == (400, "Bad Request: message caption is too long")


def test_files_that_telegram_refuses(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    missing = api.refusal("sendDocument", chat_id=ann.id)
    assert missing == (400, "Bad Request: there is no document in the request")
    assert api.refusal("sendDocument", chat_id=ann.id, document="x")[0] == 400
    empty = upload(telegram, "sendDocument", "document", b"", chat_id=str(ann.id))
    assert empty["description"] == "Bad Request: file must be non-empty"
    photo = upload(telegram, "sendPhoto", "photo", bytes(10 * MEBIBYTE + 1), chat_id=str(ann.id))
    assert "is too big for a photo" in photo["description"]
    document = upload(telegram, "sendDocument", "document", bytes(50 * MEBIBYTE + 1), chat_id=str(ann.id))
    assert document == {"ok": False, "error_code": 413, "description": "Request Entity Too Large"}
    assert ann.chat.replies == []
