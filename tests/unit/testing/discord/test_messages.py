"""Messages over REST: what people see, and what is refused as Discord refuses it."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from agent_testing.discord import FakeDiscord, RateLimits

from .conftest import RawBot


def row(*buttons: dict[str, Any]) -> dict[str, Any]:
    return {"type": 1, "components": list(buttons)}


def button(custom_id: str = "a", label: str = "Once", **more: Any) -> dict[str, Any]:
    return {"type": 2, "style": 1, "custom_id": custom_id, "label": label, **more}


def test_people_see_what_a_bot_writes_edits_and_deletes(fake: FakeDiscord, bot: RawBot) -> None:
    ada = fake.user("ada")
    sent = bot.send(ada.dm(), "  hello  ", components=[row(button())])
    path = f"/channels/{ada.dm().id}/messages/{sent['id']}"
    [message] = ada.dm().messages
    assert (message.content, [each.label for each in message.buttons]) == ("hello", ["Once"])
    bot.call("PATCH", path, {"content": "changed"})
    assert [each.content for each in message.history] == ["hello"]
    assert (message.content, len(message.buttons)) == ("changed", 1)
    bot.call("PATCH", path, {"components": []})
    assert message.buttons == []
    bot.call("DELETE", path, status=204)
    assert ada.dm().messages == []
    assert bot.refused("GET", path) == (404, 10008)


def test_history_is_read_from_an_id_in_pages_the_newest_first(fake: FakeDiscord, bot: RawBot) -> None:
    ada = fake.user("ada")
    ids = [str(ada.write(ada.dm(), str(number)).id) for number in range(6)]
    path = f"/channels/{ada.dm().id}/messages"
    read = lambda **query: [each["id"] for each in bot.call("GET", path, params=query)]  # noqa: E731
    assert read(limit=2) == [ids[5], ids[4]]
    assert read(after=ids[1], limit=2) == [ids[3], ids[2]]
    assert read(before=ids[2]) == [ids[1], ids[0]]
    assert bot.refused("GET", path, params={"limit": 101}) == (400, 50035)


@pytest.mark.parametrize(
    ("body", "where", "code"),
    [
        ({"content": "x" * 2001}, "content", "BASE_TYPE_MAX_LENGTH"),
        ({"components": [row(button(str(one))) for one in range(6)]}, "components", "BASE_TYPE_MAX_LENGTH"),
        (
            {"components": [row(*(button(str(one)) for one in range(6)))]},
            "components.0.components",
            "BASE_TYPE_BAD_LENGTH",
        ),
        ({"components": [row(button("x" * 101))]}, "components.0.components.0.custom_id", "BASE_TYPE_BAD_LENGTH"),
        ({"components": [row(button(label="x" * 81))]}, "components.0.components.0.label", "BASE_TYPE_MAX_LENGTH"),
        (
            {"components": [row(button()), row(button())]},
            "components.1.components.0.custom_id",
            "COMPONENT_CUSTOM_ID_DUPLICATED",
        ),
        (
            {"content": "x", "message_reference": {"message_id": "1"}},
            "message_reference",
            "MESSAGE_REFERENCE_UNKNOWN_MESSAGE",
        ),
        (
            {"content": "x", "allowed_mentions": {"parse": ["users"], "users": ["1"]}},
            "allowed_mentions",
            "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE",
        ),
        ({"content": "x", "nonce": "y" * 26}, "nonce", "BASE_TYPE_MAX_LENGTH"),
    ],
)
def test_a_field_that_is_wrong_is_named_by_the_tree_of_errors(
    fake: FakeDiscord, bot: RawBot, body: dict[str, Any], where: str, code: str
) -> None:
    channel = fake.user("ada").dm()
    answer = bot.call("POST", f"/channels/{channel.id}/messages", {"content": "x", **body}, status=400)
    assert (answer["code"], answer["message"]) == (50035, "Invalid Form Body")
    found = answer["errors"]
    for step in where.split("."):
        found = found[step]
    assert [each["code"] for each in found["_errors"]] == [code]
    assert channel.messages == []


@pytest.mark.parametrize("body", [{}, {"content": ""}, {"content": " \n "}, {"content": "", "components": []}])
def test_an_empty_message_is_refused(fake: FakeDiscord, bot: RawBot, body: dict[str, Any]) -> None:
    path = f"/channels/{fake.user('ada').dm().id}/messages"
    assert bot.refused("POST", path, body) == (400, 50006)


def test_two_thousand_characters_are_counted_as_code_points(fake: FakeDiscord, bot: RawBot) -> None:
    bot.send(fake.user("ada").dm(), "🦊" * 2000)


def test_a_bot_gets_the_code_that_says_why_it_may_not(fake: FakeDiscord, bot: RawBot) -> None:
    ada = fake.user("ada")
    team = fake.guild("team", [ada])
    general = fake.text_channel(team, "general")
    theirs = ada.write(general, "mine")
    path, one = f"/channels/{general.id}/messages", f"/channels/{general.id}/messages/{theirs.id}"
    assert bot.refused("PATCH", one, {"content": "x"}) == (403, 50005)
    general.read_only = True
    assert bot.refused("POST", path, {"content": "x"}) == (403, 50013)
    general.hidden = True
    assert bot.refused("POST", path, {"content": "x"}) == (403, 50001)
    general.hidden = False
    fake.kick(team, fake.bot)
    assert bot.refused("GET", one) == (403, 50001)
    fake.join(team, fake.bot)
    fake.delete_channel(general)
    assert bot.refused("GET", one) == (404, 10003)
    assert bot.refused("GET", "/channels/1") == (404, 10003)
    assert bot.refused("GET", "/no/such/route") == (404, 0)
    ada.close_dms()
    assert bot.refused("POST", f"/channels/{ada.dm().id}/messages", {"content": "x"}) == (403, 50007)
    ada.open_dms()
    bot.send(ada.dm())


def test_a_token_is_refused_when_it_is_wrong_and_after_it_was_revoked(fake: FakeDiscord, bot: RawBot) -> None:
    assert bot.call("GET", "/users/@me")["id"] == str(fake.bot.id)
    assert bot.refused("GET", "/users/@me", headers={"Authorization": "Bot wrong"}) == (401, 0)
    assert bot.refused("GET", "/users/@me", headers={"Authorization": "discord-token"}) == (401, 0)
    fake.revoke()
    assert bot.refused("GET", "/users/@me") == (401, 0)


def test_a_nonce_that_is_enforced_makes_one_message(fake: FakeDiscord, bot: RawBot) -> None:
    ada = fake.user("ada")
    first = bot.send(ada.dm(), "one", nonce="n", enforce_nonce=True)
    second = bot.send(ada.dm(), "two", nonce="n", enforce_nonce=True)
    assert (second["id"], second["content"]) == (first["id"], "one")
    assert bot.send(ada.dm(), "three", nonce="n")["id"] != first["id"]
    assert [each.content for each in ada.dm().messages] == ["one", "three"]


def test_files_go_both_ways_and_large_ones_are_refused() -> None:
    with FakeDiscord(limits=RateLimits.loose(), upload_bytes=1000) as fake:
        bot, ada = RawBot(fake), fake.user("ada")
        with bot.http:
            path = f"/channels/{ada.dm().id}/messages"
            about = json.dumps({"content": "see", "attachments": [{"id": 0, "description": "a table"}]})
            files = {"files[0]": ("a.csv", b"1,2", "text/csv")}
            bot.call("POST", path, data={"payload_json": about}, files=files)
            [kept] = ada.dm().messages[0].attachments
            assert (kept.name, kept.data, kept.content_type, kept.description) == (
                "a.csv",
                b"1,2",
                "text/csv",
                "a table",
            )
            large = {"files[0]": ("b.bin", b"x" * 1001)}
            assert bot.refused("POST", path, data={"payload_json": "{}"}, files=large) == (413, 40005)
            theirs = ada.write(ada.dm(), "", attachments=[("c d.txt", b"hello")])
            [shown] = bot.call("GET", f"{path}/{theirs.id}")["attachments"]
            assert (shown["size"], httpx.get(shown["url"], trust_env=False).content) == (5, b"hello")


@pytest.mark.parametrize(
    ("allowed", "notified", "everyone"),
    [
        (None, ["ada", "bob", "carl"], True),
        ({"parse": []}, [], False),
        ({"parse": [], "replied_user": True}, ["carl"], False),
        ({"parse": ["everyone"]}, ["ada", "bob", "carl"], True),
        ({"parse": ["users"]}, ["ada"], False),
        ({"users": ["ada"]}, ["ada"], False),
    ],
)
def test_only_allowed_mentions_notify(
    fake: FakeDiscord, bot: RawBot, allowed: dict[str, Any] | None, notified: list[str], everyone: bool
) -> None:
    people = {name: fake.user(name) for name in ("ada", "bob", "carl")}
    general = fake.text_channel(fake.guild("team", people.values()), "general")
    asked = people["carl"].write(general, "who?")
    if allowed and "users" in allowed:
        allowed = {"parse": [], "users": [str(people["ada"].id)]}
    fields = {"message_reference": {"message_id": str(asked.id)}} | ({"allowed_mentions": allowed} if allowed else {})
    bot.send(general, f"{people['ada'].mention} @everyone `{people['bob'].mention}`", **fields)
    message = general.messages[-1]
    assert sorted(each.name for each in message.notified) == notified
    assert message.mentions_everyone is everyone
    assert people["ada"] in message.mentions


def test_a_silent_message_notifies_none_and_flags_of_answers_mean_nothing(fake: FakeDiscord, bot: RawBot) -> None:
    ada = fake.user("ada")
    bot.send(ada.dm(), ada.mention, flags=1 << 12)
    bot.send(ada.dm(), ada.mention, flags=1 << 6)
    silent, plain = ada.dm().messages
    assert (silent.notified, plain.notified, plain.ephemeral) == ((), [ada], False)
    bot.call("PATCH", f"/channels/{ada.dm().id}/messages/{plain.id}", {"flags": 4})
    assert plain.flags == 4


def test_threads_are_opened_from_messages_and_without(fake: FakeDiscord, bot: RawBot) -> None:
    ada = fake.user("ada")
    general = fake.text_channel(fake.guild("team", [ada]), "general")
    starter = ada.write(general, "topic")
    path = f"/channels/{general.id}/messages/{starter.id}/threads"
    opened = bot.call("POST", path, {"name": "topic"}, status=201)
    assert (opened["type"], opened["id"]) == (11, str(starter.id))
    assert bot.refused("POST", path, {"name": "again"}) == (400, 160004)
    assert starter.thread is not None
    bot.send(starter.thread, "in it")
    bot.call("PATCH", f"/channels/{opened['id']}", {"archived": True})
    assert bot.refused(
        "PATCH", f"/channels/{opened['id']}/messages/{starter.thread.messages[0].id}", {"content": "x"}
    ) == (
        400,
        50083,
    )
    assert bot.call("GET", f"/channels/{opened['id']}")["thread_metadata"]["archived"] is True
    assert bot.refused("POST", f"/channels/{ada.dm().id}/threads", {"name": "no"}) == (400, 50024)


def test_guilds_members_and_typing_are_read_and_shown(fake: FakeDiscord, bot: RawBot) -> None:
    ada = fake.user("ada")
    team = fake.guild("team", [ada])
    general = fake.text_channel(team, "general")
    assert [each["name"] for each in bot.call("GET", "/users/@me/guilds")] == ["team"]
    assert bot.call("GET", f"/guilds/{team.id}")["name"] == "team"
    assert [each["id"] for each in bot.call("GET", f"/guilds/{team.id}/channels")] == [str(general.id)]
    assert bot.call("GET", f"/guilds/{team.id}/members/{ada.id}")["user"]["username"] == "ada"
    assert bot.refused("GET", f"/guilds/{team.id}/members/1") == (404, 10007)
    assert bot.refused("GET", "/guilds/1") == (404, 10004)
    bot.call("POST", f"/channels/{general.id}/typing", status=204)
    assert general.typing == [fake.bot]
    opened = bot.call("POST", "/users/@me/channels", {"recipient_id": str(ada.id)})
    assert opened["id"] == str(ada.dm().id)
    assert bot.call("GET", "/gateway/bot")["url"] == fake.gateway_url


def test_reactions_are_kept_with_those_who_gave_them(fake: FakeDiscord, bot: RawBot) -> None:
    ada = fake.user("ada")
    message = ada.write(ada.dm(), "hello")
    path = f"/channels/{ada.dm().id}/messages/{message.id}/reactions/👍/@me"
    bot.call("PUT", path, status=204)
    ada.react(message, "👍")
    assert message.reactions == {"👍": [fake.bot, ada]}
    bot.call("DELETE", path, status=204)
    assert message.reactions == {"👍": [ada]}


def test_the_journal_has_every_request_in_order(fake: FakeDiscord, bot: RawBot) -> None:
    ada = fake.user("ada")
    bot.send(ada.dm(), "one")
    bot.refused("POST", f"/channels/{ada.dm().id}/messages", {"content": ""})
    bot.refused("PUT", "/nowhere", {"a": 1})
    seen = [(each.number, each.method, each.route, each.status, each.code, each.applied) for each in fake.journal]
    route = "/channels/{channel_id}/messages"
    assert seen == [
        (1, "POST", route, 200, None, True),
        (2, "POST", route, 400, 50006, False),
        (3, "PUT", "/nowhere", 404, 0, False),
    ]
    assert fake.journal[0].body == {"content": "one"}


def test_a_form_that_is_broken_is_refused(fake: FakeDiscord, bot: RawBot) -> None:
    path = f"/channels/{fake.user('ada').dm().id}/messages"
    part = 'Content-Disposition: form-data; name="files[0]"; filename="a"\r\nContent-Type: text/pl\rain\r\n\r\nx'
    headers = {"content-type": "multipart/form-data; boundary=b"}
    assert bot.refused("POST", path, content=f"--b\r\n{part}\r\n--b--\r\n", headers=headers) == (400, 50035)
