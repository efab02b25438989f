"""Updates of the fake Telegram: how they wait, are confirmed, and what goes wrong with them."""

from __future__ import annotations

import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from agent_testing import FakeTelegram, TelegramFaults, TelegramLimits
from tests.unit.testing.telegram.api import Api, acquainted

OTHER = "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"


def texts(updates: list[dict[str, Any]]) -> list[str]:
    return [update["message"]["text"] for update in updates]


def waiting(telegram: FakeTelegram, polls: int) -> None:
    """Wait until that many getUpdates have arrived and the newest waits."""
    telegram.wait_for(
        lambda: len(telegram.calls("getUpdates")) == polls and telegram.calls("getUpdates")[-1].status is None
    )


def test_an_offset_confirms_what_is_below_it(telegram: FakeTelegram, api: Api) -> None:
    ann = telegram.create_user("Ann")
    for text in ("a", "b", "c"):
        ann.write(ann.chat, text)
    first = api.updates(limit=2)
    assert texts(first) == ["a", "b"]
    assert texts(api.updates()) == ["a", "b", "c"]
    assert texts(api.updates(offset=first[-1]["update_id"] + 1)) == ["c"]
    assert texts(api.updates()) == ["c"]
    ann.write(ann.chat, "d")
    assert texts(api.updates(offset=-1)) == ["d"]
    assert telegram.pending_updates == 1


def test_a_poll_waits_for_an_update(telegram: FakeTelegram, api: Api) -> None:
    ann = telegram.create_user("Ann")
    with ThreadPoolExecutor() as pool:
        poll = pool.submit(api.updates, timeout=20)
        waiting(telegram, 1)
        message = ann.write(ann.chat, "hello")
        ann.edit(message, "hello!")
        assert poll.result()[0]["message"]["text"] == "hello"
    assert api.updates()[-1]["edited_message"]["text"] == "hello!"
    assert message.edits[0].text == "hello"


def test_a_second_poll_ends_the_first(telegram: FakeTelegram, api: Api) -> None:
    with ThreadPoolExecutor() as pool:
        first: Future[tuple[int, str]] = pool.submit(api.refusal, "getUpdates", timeout=20)
        waiting(telegram, 1)
        second = pool.submit(api.updates, timeout=20)
        assert first.result() == (409, OTHER)
        acquainted(telegram)
        assert texts(second.result()) == ["/start"]


def test_a_webhook_excludes_polls(telegram: FakeTelegram, api: Api) -> None:
    api.call("setWebhook", url="https://bot.example/hook")
    status, reason = api.refusal("getUpdates")
    assert (status, reason.split(";")[0]) == (409, "Conflict: can't use getUpdates method while webhook is active")
    acquainted(telegram)
    assert api.call("getWebhookInfo") == {
        "url": "https://bot.example/hook",
        "has_custom_certificate": False,
        "pending_update_count": 1,
    }
    api.call("deleteWebhook", drop_pending_updates=True)
    assert api.updates() == []
    assert api.refusal("setWebhook", url="http://bot.example")[0] == 400
    assert api.call("logOut") is api.call("close") is True


def test_kinds_of_updates_are_chosen(telegram: FakeTelegram, api: Api) -> None:
    api.updates(allowed_updates=["edited_message"])
    ann = telegram.create_user("Ann")
    ann.edit(ann.write(ann.chat, "a"), "b")
    assert [sorted(update) for update in api.updates()] == [["edited_message", "update_id"]]
    assert api.refusal("getUpdates", allowed_updates="message")[0] == 400


def test_in_a_group_the_bot_hears_what_is_meant_for_it(telegram: FakeTelegram, api: Api) -> None:
    ann = telegram.create_user("Ann")
    group = telegram.create_group("Team", ann)
    heard = ["/status", "/status@helper_bot", "hi @Helper_Bot"]
    for text in (*heard, "hi", "/status@other_bot", "hi @other_bot"):
        ann.write(group, text)
    api.call("sendMessage", chat_id=group.id, text="yes?")
    ann.write(group, "no", reply_to=group.replies[0])
    assert texts(api.updates()) == [*heard, "no"]
    group.add(telegram.bot, "administrator")
    ann.write(group, "all of it")
    assert texts([update for update in api.updates() if "message" in update])[-1] == "all of it"
    with pytest.raises(ValueError, match="Bob is not in 'Team'"):
        telegram.create_user("Bob").write(group, "hi")


def test_a_block_and_a_kick_are_told(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    ann.block()
    ann.write(ann.chat, "back again")
    telegram.create_group("Team", ann).kick(telegram.bot)
    changes = [update["my_chat_member"] for update in api.updates() if "my_chat_member" in update]
    assert [(change["chat"]["type"], change["new_chat_member"]["status"]) for change in changes] == [
        ("private", "kicked"),
        ("private", "member"),
        ("group", "kicked"),
    ]


def test_a_confirmed_update_can_come_again(telegram: FakeTelegram, api: Api) -> None:
    acquainted(telegram)
    offset = api.updates()[0]["update_id"] + 1
    assert api.updates(offset=offset) == []
    assert telegram.redeliver() == offset - 1
    assert [update["update_id"] for update in api.updates(offset=offset)] == [offset - 1]
    assert api.updates(offset=offset) == []
    with pytest.raises(LookupError):
        telegram.redeliver(1)


def test_a_bot_that_has_died_takes_nothing(telegram: FakeTelegram, api: Api) -> None:
    acquainted(telegram)
    offset = api.updates()[0]["update_id"] + 1
    assert api.updates(offset=offset) == []
    host, port = telegram.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as dying:
        path = f"/bot{telegram.token}/getUpdates?timeout=20&offset={offset}"
        dying.sendall(f"GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n".encode())
        waiting(telegram, 3)
    for _ in range(3):
        api.call("getMe")  # behind the end of the connection
    telegram.redeliver()
    assert [update["update_id"] for update in api.updates(offset=offset, timeout=10)] == [offset - 1]


def test_duplicates_come_once_more(telegram: FakeTelegram, api: Api) -> None:
    telegram.faults = TelegramFaults(duplicates=1.0)
    acquainted(telegram)
    offset = api.updates()[0]["update_id"] + 1
    assert [len(api.updates(offset=offset)) for _ in range(3)] == [1, 0, 0]


def everything(telegram: FakeTelegram, api: Api, count: int, *, newest: bool) -> list[str]:
    """Take updates until `count` different ones were seen; the offset follows the newest or the last of each batch."""
    seen, offset, received = set[int](), 0, list[str]()
    while len(seen) < count or telegram.pending_updates:
        for update in (batch := api.updates(offset=offset, timeout=1, limit=5)):
            if update["update_id"] not in seen:
                received.append(update["message"]["text"])
            seen.add(update["update_id"])
        if not (ids := [update["update_id"] for update in batch]):
            continue
        offset = (
            max(offset, (max(ids) if newest else ids[-1]) + 1) if ids and newest else (ids[-1] + 1 if ids else offset)
        )
    return received


@pytest.mark.slow
@pytest.mark.parametrize("newest", [True, False])
@pytest.mark.parametrize("kind", ["late", "reorders", "duplicates"])
def test_disorder_loses_nothing(telegram: FakeTelegram, api: Api, kind: str, newest: bool) -> None:
    telegram.faults = TelegramFaults(seed=3, **{kind: 1.0 if kind == "reorders" else 0.5})
    ann = telegram.create_user("Ann")
    sent = [str(number) for number in range(20)]
    for text in sent:
        ann.write(ann.chat, text)
    received = everything(telegram, api, len(sent), newest=newest)
    assert sorted(received, key=int) == sent
    assert (received != sent) is (kind != "duplicates")


def test_a_poll_is_cut_on_demand_and_at_random(telegram: FakeTelegram, api: Api) -> None:
    with ThreadPoolExecutor() as pool:
        poll = pool.submit(api.updates, timeout=20)
        waiting(telegram, 1)
        telegram.cut_poll()
        with pytest.raises(httpx.RemoteProtocolError):
            poll.result()
    telegram.faults = TelegramFaults(cut_polls=1.0)
    with pytest.raises(httpx.RemoteProtocolError):
        api.updates(timeout=1)


def test_a_revoked_token_ends_the_poll(telegram: FakeTelegram, api: Api) -> None:
    with ThreadPoolExecutor() as pool:
        poll = pool.submit(api.refusal, "getUpdates", timeout=20)
        waiting(telegram, 1)
        telegram.revoke_token()
        assert poll.result() == (401, "Unauthorized")


def test_a_call_fails_as_planned_and_the_journal_says_whether_it_was_applied(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)

    def send(text: str) -> httpx.Response:
        return api.answer("sendMessage", chat_id=ann.id, text=text)

    telegram.fail("sendMessage", "cut_before", skip=1)
    telegram.fail("sendMessage", "cut_after")
    telegram.fail("sendMessage", "server_error", status=500)
    telegram.fail("sendMessage", "html")
    telegram.fail("sendMessage", "hang", seconds=0.05)
    telegram.fail("*", "slow", seconds=0.05)
    broken = httpx.RemoteProtocolError
    for text, expected in {"a": broken, "b": broken, "c": 500, "d": 502, "e": broken, "f": 200, "g": 200}.items():
        if isinstance(expected, int):
            assert send(text).status_code == expected
        else:
            with pytest.raises(expected):
                send(text)
    assert [message.text for message in ann.chat.replies] == ["a", "e", "f", "g"]
    calls = {call.parameters.text("text"): (call.fault, call.applied) for call in telegram.calls("sendMessage")}
    assert calls["a"] == ("cut_after", True)
    assert calls["b"] == ("cut_before", False)


def test_what_is_refused_with_429_must_wait(telegram: FakeTelegram, api: Api) -> None:
    ann = acquainted(telegram)
    telegram.fail("sendMessage", "too_many_requests", seconds=7)
    refused = api.answer("sendMessage", chat_id=ann.id, text="x").json()
    assert refused["description"] == "Too Many Requests: retry after 7"
    assert refused["parameters"] == {"retry_after": 7}
    assert telegram.violations == []
    assert api.refusal("sendMessage", chat_id=ann.id, text="x")[0] == 429
    assert [violation.reason for violation in telegram.violations] == ["did not wait for retry_after"]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_rates_are_limited_per_chat_per_group_and_in_all() -> None:
    clock = Clock()
    limits = TelegramLimits(per_second=5, chat_per_second=1, chat_burst=2, group_per_minute=3)
    with FakeTelegram(limits=limits, clock=clock) as telegram, Api(telegram) as api:
        people = [acquainted(telegram, name) for name in ("Ann", "Bob", "Cy", "Di")]
        group = telegram.create_group("Team", *people)

        def sent(chat: int) -> bool:
            return api.answer("sendMessage", chat_id=chat, text="x").json()["ok"]

        assert [sent(people[0].id) for _ in range(3)] == [True, True, False]
        clock.now += 1
        assert [sent(people[0].id) for _ in range(2)] == [True, False]
        clock.now += 10
        passed = list[bool]()
        for _ in range(5):
            passed.append(sent(group.id))
            clock.now += 2
        assert passed == [True, True, True, False, False]
        clock.now += 60
        assert [sent(person.id) for person in people for _ in range(2)] == [True] * 5 + [False] * 3
        reasons = [violation.reason for violation in telegram.violations]
        assert reasons[:3] == ["too fast in one chat", "too fast in one chat", "too fast in a group"]
        assert "too fast in all chats" in reasons
        telegram.limits = TelegramLimits.none()
        assert sent(people[3].id)


def test_random_faults_are_those_of_their_seed() -> None:
    def outcome(seed: int) -> list[int]:
        faults = TelegramFaults(seed=seed, server_errors=0.3, html=0.2, slow=0.1, slow_seconds=0.01)
        with FakeTelegram(faults=faults) as telegram, Api(telegram) as api:
            statuses = [api.answer("getMe").status_code for _ in range(30)]
            telegram.clear_faults()
            assert {api.answer("getMe").status_code for _ in range(10)} == {200}
            return statuses

    assert outcome(1) == outcome(1) != outcome(2)
    assert set(outcome(1)) == {200, 500, 502}
    with pytest.raises(ValueError, match="late is 2"):
        TelegramFaults(late=2)


def test_waiting_ends_at_its_deadline_and_says_what_was_called(telegram: FakeTelegram, api: Api) -> None:
    api.call("getMe")
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="getMe: 200"):
        telegram.wait_for(lambda: False, seconds=0.05)
    assert time.monotonic() - begun < 5
