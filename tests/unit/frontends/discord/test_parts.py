"""The parts of the Discord port that need no connection."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import discord
import pytest

from agent_testing import ManualClock
from frontends.discord.commands import slash_commands
from frontends.discord.connection import by_name
from frontends.discord.connection.address import api_roots
from frontends.discord.copies import Copies, nonce_of
from frontends.discord.pieces import choose, view
from frontends.discord.updates import QUOTE_CHARACTERS, command_text, of_message
from frontends.discord.words import EMBED_CHARACTERS
from frontends.platform import (
    AnotherCopy,
    Button,
    ChatGone,
    Command,
    MessageGone,
    Piece,
    PlatformError,
    Quote,
    Sender,
    TemporarilyUnavailable,
    TokenRejected,
    Update,
)


@pytest.mark.parametrize(
    ("given", "roots"),
    [
        (None, ["https://discord.com/api/v10"]),
        ("http://127.0.0.1:8700", ["http://127.0.0.1:8700/api/v10", "http://127.0.0.1:8700"]),
        ("http://127.0.0.1:8700/", ["http://127.0.0.1:8700/api/v10", "http://127.0.0.1:8700"]),
        ("http://127.0.0.1:8700/api", ["http://127.0.0.1:8700/api", "http://127.0.0.1:8700/api/v10"]),
        ("https://proxy.example/discord/api/v10/", ["https://proxy.example/discord/api/v10"]),
    ],
)
def test_the_roots_of_the_api(given: str | None, roots: list[str]) -> None:
    assert api_roots(given) == roots


def answer(status: int, code: int = 0, kind: type[discord.HTTPException] = discord.HTTPException) -> Exception:
    response = cast(aiohttp.ClientResponse, SimpleNamespace(status=status, reason="No"))
    return kind(response, {"code": code, "message": "said so"})


@pytest.mark.parametrize(
    ("error", "named"),
    [
        (answer(401), TokenRejected),
        (answer(403, 50001), ChatGone),
        (answer(403, 50007), ChatGone),
        (answer(404, 10003), ChatGone),
        (answer(404, 10008), MessageGone),
        (answer(400, 30046), MessageGone),
        (answer(503), TemporarilyUnavailable),
        (answer(429), TemporarilyUnavailable),
        (discord.LoginFailure(), TokenRejected),
        (discord.RateLimited(99), TemporarilyUnavailable),
        (aiohttp.ServerDisconnectedError(), TemporarilyUnavailable),
        (TimeoutError(), TemporarilyUnavailable),
        (discord.PrivilegedIntentsRequired(None), PlatformError),
        (answer(400, 50035), PlatformError),
    ],
)
def test_refusals_have_names(error: Exception, named: type[PlatformError]) -> None:
    assert type(by_name(error)) is named


def test_only_what_was_not_done_is_refused() -> None:
    """The caller sends again what was refused, and looks for the rest."""
    unavailable = [
        by_name(answer(429)),
        by_name(discord.RateLimited(99)),
        by_name(answer(503)),
        by_name(TimeoutError()),
    ]
    assert [cast(TemporarilyUnavailable, error).refused for error in unavailable] == [True, True, False, False]


def test_a_command_has_at_most_one_argument_with_a_name_that_discord_takes() -> None:
    plain, given = slash_commands([Command("new", "Begin anew"), Command("model", "x" * 200, "Name: of the MODEL")])
    assert plain["options"] == []
    assert given["options"][0]["name"] == "name_of_the_model"
    assert len(given["description"]) == 100


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"name": "new"}, "/new"),
        ({"name": "model", "options": [{"name": "text", "type": 3, "value": "large one"}]}, "/model large one"),
    ],
)
def test_a_command_reads_as_if_it_was_typed(data: dict[str, Any], text: str) -> None:
    assert command_text(data) == text


# ---------------------------------------------------------------- finding


def found(
    content: str, *, nonce: str | None = None, buttons: tuple[str, ...] = (), file: bool = False
) -> discord.Message:
    children = [{"type": 2, "style": 2, "label": "x", "custom_id": each} for each in buttons]
    row = discord.ActionRow(cast(Any, {"type": 1, "components": children}))
    shown = SimpleNamespace(content=content, nonce=nonce, components=[row] if buttons else [], attachments=[1] * file)
    return cast(discord.Message, shown)


def test_a_message_is_known_by_its_nonce_then_by_what_it_shows_then_as_the_only_one() -> None:
    piece, nonce = Piece("May I?", ((Button("Once", "a:1"),),)), nonce_of("key")
    named, same, other = found("an earlier state", nonce=nonce), found("May I?", buttons=("a:1",)), found("May I?")
    foreign = found("May I?", nonce=nonce_of("another"), buttons=("a:1",))
    assert choose([same, other, foreign, named], piece, nonce, file=False) is named
    assert choose([other, foreign, same], piece, nonce, file=False) is same
    assert choose([other, foreign], piece, nonce, file=False) is other
    assert choose([other, found("what else?"), foreign], piece, nonce, file=False) is None
    assert choose([foreign], piece, nonce, file=False) is None


def test_a_file_is_not_taken_for_a_text() -> None:
    file, text = found("", file=True), found("May I?")
    assert choose([text, file], Piece(""), nonce_of("key"), file=True) is file
    assert choose([file], Piece("May I?"), nonce_of("key"), file=False) is None


async def test_buttons_are_in_their_rows_and_nothing_in_this_process_waits_for_them() -> None:
    shown = view(((Button("Once", "a"), Button("x" * 100, "b")), (Button("Reject", "c"),)))
    assert shown
    assert shown.is_finished()
    rows = shown.to_components()
    assert [[each["custom_id"] for each in row["components"]] for row in cast(list[Any], rows)] == [["a", "b"], ["c"]]
    assert view(()) is None


async def test_more_rows_than_discord_takes_are_filled_anew() -> None:
    eight = [(Button(str(number), str(number)),) for number in range(8)]
    shown = view(eight)
    assert shown
    assert [len(row["components"]) for row in cast(list[Any], shown.to_components())] == [5, 3]
    with pytest.raises(PlatformError, match="25 buttons"):
        view([eight[0]] * 26)


# ---------------------------------------------------------------- copies


async def told(copies: Copies) -> bool:
    try:
        await asyncio.wait_for(copies.watch(), 0.01)
    except AnotherCopy:
        return True
    except TimeoutError:
        return False
    return False


async def test_two_signs_in_ten_minutes_are_another_copy() -> None:
    clock = ManualClock()
    copies = Copies(clock)
    clock.advance(60)
    copies.seen(nonce_of("foreign"))
    assert not await told(copies)
    clock.advance(601)
    copies.seen(nonce_of("foreign, later"))
    assert not await told(copies)
    copies.sign()
    assert await told(copies)
    assert not await told(copies), "one copy is told once"


async def test_own_messages_and_those_of_other_programs_are_no_sign() -> None:
    clock = ManualClock()
    copies = Copies(clock)
    copies.seen(nonce_of("of the process before this one"))
    clock.advance(60)
    own = copies.nonce("own")
    for nonce in (own, own, None, 123, "of another program"):
        copies.seen(nonce)
    assert len(own) <= 25
    assert not await told(copies)


# ---------------------------------------------------------------- what it says

ME = 9
LISTS = ("mentions", "role_mentions", "_cs_channel_mentions", "attachments", "message_snapshots", "embeds", "stickers")


def person(number: int, name: str) -> SimpleNamespace:
    return SimpleNamespace(id=number, display_name=name, bot=False)


def written(content: str, **fields: Any) -> discord.Message:
    """A message of Ada that has what is read of it."""
    message = object.__new__(discord.Message)
    shown: dict[str, Any] = {
        "id": 5,
        "content": content,
        "author": person(1, "Ada"),
        "channel": SimpleNamespace(id=2, name="general"),
        "type": discord.MessageType.default,
        **dict.fromkeys(("webhook_id", "reference")),
        **{name: [] for name in LISTS},
    }
    for name, value in {**shown, **fields}.items():
        setattr(message, name, value)
    return message


def read(content: str, **fields: Any) -> Update:
    found = of_message(written(content, **fields), me=ME)
    assert found is not None
    return found


def replying(to: object, kind: discord.MessageType = discord.MessageType.reply) -> dict[str, Any]:
    return {"reference": SimpleNamespace(message_id=4, resolved=to), "type": kind}


ALERT = discord.Embed(title="Build failed", url="https://ci.example/7", description="main: 3 tests")
ALERT.add_field(name="Branch", value="main")
SHOWN = "Build failed\nhttps://ci.example/7\nmain: 3 tests\nBranch: main"
PREVIEW = discord.Embed.from_dict({"type": "link", "title": "A page"})
CI = SimpleNamespace(id=4, display_name="CI", bot=True)


def forwarded(content: str, **fields: Any) -> SimpleNamespace:
    return SimpleNamespace(**{"content": content, "attachments": [], "embeds": [], "stickers": [], **fields})


@pytest.mark.parametrize(("content", "author"), [("", "an unknown sender"), ("look:", None)])
def test_a_message_that_is_forwarded_has_words_of_another(content: str, author: str | None) -> None:
    found = read(content, message_snapshots=[forwarded("yes K7")])
    assert (found.text, found.forwarded_from) == (content or "yes K7", author)
    assert read(content or "x", embeds=[ALERT]).text == (content or "x"), "a person has said nothing else"


@pytest.mark.parametrize(
    ("content", "fields", "text"),
    [
        ("", {"embeds": [ALERT]}, SHOWN),
        ("Alert!", {"embeds": [ALERT, PREVIEW]}, f"Alert!\n{SHOWN}"),
        ("https://a.example", {"embeds": [PREVIEW]}, "https://a.example"),
        ("", {"embeds": [PREVIEW]}, "A page"),
        ("", {"stickers": [SimpleNamespace(name="wave")]}, "[a sticker: wave]"),
        ("", {"embeds": [discord.Embed(description="x" * 9000)] * 2}, "x" * EMBED_CHARACTERS),
        ("", {}, ""),
    ],
)  # fmt: skip
def test_what_is_beside_a_text_of_another_is_read(content: str, fields: dict[str, Any], text: str) -> None:
    found = read("", message_snapshots=[forwarded(content, **fields)])
    assert (found.text, found.forwarded_from) == (text, "an unknown sender")
    quote = read("what?", **replying(written(content, author=CI, **fields))).quote
    assert (quote.text if quote else "") == text[:QUOTE_CHARACTERS]


def test_a_sticker_is_named() -> None:
    assert read("", stickers=[SimpleNamespace(name="wave")]).text == "[a sticker: wave]"


def role(number: int, name: str, bot: int | None = None) -> SimpleNamespace:
    return SimpleNamespace(name=name, mention=f"<@&{number}>", tags=SimpleNamespace(bot_id=bot))


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("see <#123>, <@&456>", "see #general, @ops"),
        ("<@&457> hi <@!3> <@9>", "hi @Ben"),
        ("<:party:789> <a:wave_2:790>!", ":party: :wave_2:!"),
        ("<#124> <@&458> <@4> <t:1:R> a<b:c>", "<#124> <@&458> <@4> <t:1:R> a<b:c>"),
    ],
)
def test_names_stand_in_place_of_numbers(content: str, text: str) -> None:
    found = read(
        content,
        mentions=[BEN, person(9, "Helper")],
        role_mentions=[role(456, "ops"), role(457, "Helper", ME)],
        _cs_channel_mentions=[SimpleNamespace(name="general", mention="<#123>")],
    )
    assert (found.text, found.addressed) == (text, True)


BEN = person(3, "Ben")
FILE = SimpleNamespace(id=8, url="https://cdn.example/a.png", filename="a.png", content_type="image/png", size=3)
FROM_BEN = Sender("3", "Ben")


@pytest.mark.parametrize(
    ("fields", "quote"),
    [
        (replying(written("failed: 503", author=BEN)), Quote("failed: 503", FROM_BEN)),
        (replying(written("<@!3> and <@9>", author=BEN, mentions=[BEN, person(9, "Me")])), Quote("@Ben and", FROM_BEN)),
        (replying(written("Yes", author=person(ME, "Helper"))), Quote("Yes", Sender("9", "Helper"), own=True)),
        (replying(written("x" * 9000, author=BEN)), Quote("x" * QUOTE_CHARACTERS, FROM_BEN)),
        (replying(written("", author=BEN, attachments=[FILE])), Quote("[a file: a.png]", FROM_BEN)),
        (replying(written("", author=BEN)), None),
        (replying(discord.DeletedReferencedMessage(discord.MessageReference(message_id=4, channel_id=2))), None),
        (replying(None), None),
        (replying(written("a pin", author=BEN), discord.MessageType.default), None),
    ],
)  # fmt: skip
def test_what_a_message_replies_to_comes_with_it(fields: dict[str, Any], quote: Quote | None) -> None:
    assert read("what does this mean?", **fields).quote == quote
