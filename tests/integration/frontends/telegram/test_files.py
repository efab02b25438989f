"""Files both ways."""

from __future__ import annotations

import pytest

from agent_testing.telegram import FakeTelegram
from frontends.platform import Chat, IncomingFile, PlatformError, TemporarilyUnavailable
from frontends.telegram import TelegramPlatform

from .conftest import Inbox


async def content_of(bot: TelegramPlatform, file: IncomingFile) -> bytes:
    return b"".join([chunk async for chunk in bot.download(file)])


async def test_a_file_comes_in_chunks(telegram: FakeTelegram, bot: TelegramPlatform, inbox: Inbox) -> None:
    ann, content = telegram.create_user("Ann"), b"0123456789abcdef" * 20_000
    ann.send_document(ann.chat, "a b.txt", content, media_type="text/plain", caption="look")
    (file,) = (await inbox.one("look")).files
    assert (file.name, file.media_type, file.size) == ("a b.txt", "text/plain", len(content))
    chunks = [chunk async for chunk in bot.download(file)]
    assert b"".join(chunks) == content
    assert len(chunks) > 1


async def test_photo_and_voice(telegram: FakeTelegram, bot: TelegramPlatform, inbox: Inbox) -> None:
    ann = telegram.create_user("Ann")
    ann.send_photo(ann.chat, b"photo", caption="a photo")
    ann.send_voice(ann.chat, b"voice", caption="a voice")
    for text, content in (("a photo", b"photo"), ("a voice", b"voice")):
        (file,) = (await inbox.one(text)).files
        assert await content_of(bot, file) == content


async def test_files_that_cannot_be_had(telegram: FakeTelegram, bot: TelegramPlatform, inbox: Inbox) -> None:
    ann = telegram.create_user("Ann")
    ann.send_document(ann.chat, "big", b"x", size=21 * 1024 * 1024, caption="big")
    ann.send_document(ann.chat, "small", b"x", caption="small")
    (big,), (small,) = (await inbox.one("big")).files, (await inbox.one("small")).files
    with pytest.raises(PlatformError, match="too big"):
        await content_of(bot, big)
    with pytest.raises(PlatformError):
        await content_of(bot, IncomingFile("unheard of", "x", "text/plain", 1))
    telegram.fail("file", "cut_before")
    with pytest.raises(TemporarilyUnavailable) as error:
        await content_of(bot, small)
    assert telegram.token not in str(error.value)
    assert await content_of(bot, small) == b"x"


async def test_a_file_goes_with_a_caption(telegram: FakeTelegram, bot: TelegramPlatform) -> None:
    ann = telegram.create_user("Ann")
    ann.write(ann.chat, "hi")
    number = await bot.send_file(
        Chat(str(ann.id), private=True), "résumé.md", b"# hi", key="k", caption="**😀** " * 1000
    )
    sent = ann.chat.visible[-1]
    assert sent.file is not None
    assert (str(sent.id), sent.file.name, sent.file.content) == (number, "résumé.md", b"# hi")
    assert sent.text.startswith("😀 😀")
    assert len(sent.text.encode("utf-16-le")) // 2 <= 1024
    assert {entity.type for entity in sent.entities} == {"bold"}
