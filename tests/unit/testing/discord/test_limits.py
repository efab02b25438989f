"""Rate limits, who ignores them, and faults of requests."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from agent_testing.discord import FakeDiscord, Fault, RandomFaults, RateLimits

from .conftest import RawBot


def wait_until(moment: float) -> None:
    """Wait for a moment that the double has named."""
    while (left := moment - time.monotonic()) > 0:
        time.sleep(left)


def test_a_bucket_that_is_used_up_answers_429_and_opens_again() -> None:
    with FakeDiscord(limits=RateLimits(messages=2, seconds=0.5)) as fake:
        bot, ada, bob = RawBot(fake), fake.user("ada"), fake.user("bob")
        with bot.http:
            path = f"/channels/{ada.dm().id}/messages"
            answers = [bot.http.post(path, json={"content": "x"}) for _ in range(3)]
            assert [each.status_code for each in answers] == [200, 200, 429]
            assert [each.headers["X-RateLimit-Remaining"] for each in answers] == ["1", "0", "0"]
            assert answers[0].headers["X-RateLimit-Limit"] == "2"
            assert answers[0].headers["X-RateLimit-Bucket"] == answers[2].headers["X-RateLimit-Bucket"]
            body = answers[2].json()
            assert (body["global"], 0 < body["retry_after"] <= 0.5) == (False, True)
            assert answers[2].headers["Via"]
            assert "X-RateLimit-Reset-After" in answers[2].headers
            bot.send(bob.dm())  # another channel has a bucket of its own
            wait_until(time.monotonic() + body["retry_after"])
            bot.send(ada.dm())
            assert [len(ada.dm().messages), len(bob.dm().messages)] == [3, 1]
            assert fake.violations == []


def test_a_bot_that_does_not_wait_is_reported() -> None:
    with FakeDiscord(limits=RateLimits(messages=1, seconds=5)) as fake:
        bot, ada = RawBot(fake), fake.user("ada")
        with bot.http:
            path = f"/channels/{ada.dm().id}/messages"
            bot.send(ada.dm())
            assert bot.refused("POST", path, {"content": "x"}) == (429, 0)
            assert fake.violations == []  # it may have been on its way
            wait_until(time.monotonic() + 0.3)
            assert bot.refused("POST", path, {"content": "x"}) == (429, 0)
            assert [each.kind for each in fake.violations] == ["retry-after"]


def test_a_bot_that_does_not_read_what_is_left_is_reported() -> None:
    with FakeDiscord(limits=RateLimits(messages=1, seconds=5)) as fake:
        bot, ada = RawBot(fake), fake.user("ada")
        with bot.http:
            bot.send(ada.dm())
            wait_until(time.monotonic() + 0.3)
            bot.refused("POST", f"/channels/{ada.dm().id}/messages", {"content": "x"})
            assert [each.kind for each in fake.violations] == ["exhausted"]


def test_all_routes_together_have_a_limit_which_answers_to_buttons_do_not_use() -> None:
    with FakeDiscord(limits=RateLimits(overall=3)) as fake:
        bot, ada = RawBot(fake), fake.user("ada")
        with bot.http:
            answers = [bot.http.get(path) for path in ("/users/@me", "/gateway", "/gateway/bot", "/users/@me/guilds")]
            assert answers[3].status_code == 429
            assert (answers[3].json()["global"], answers[3].headers["X-RateLimit-Global"]) == (True, "true")
            fake.bot.commands = [{"id": "1", "name": "new", "type": 1}]
            action = ada.command("new").interaction
            bot.call("POST", f"/interactions/{action.id}/{action.token}/callback", {"type": 5}, 204)


def test_a_storm_of_invalid_requests_is_reported_once() -> None:
    with FakeDiscord(limits=RateLimits(invalid=3, overall=100, others=100)) as fake:
        bot = RawBot(fake)
        with bot.http:
            for number in range(6):
                bot.refused("GET", f"/channels/{number}")
            assert [each.kind for each in fake.violations] == ["invalid-requests"]


@pytest.mark.parametrize(
    ("fault", "status", "written"),
    [
        (Fault("5xx", status=503), 503, 0),
        (Fault("5xx-after", status=504), 504, 1),
        (Fault("429", seconds=7.5), 429, 0),
        (Fault("cut"), None, 0),
        (Fault("cut-after"), None, 1),
        (Fault("hang", seconds=0.1), None, 0),
        (Fault("hang-after", seconds=0.1), None, 1),
        (Fault("slow", seconds=0.1), 200, 1),
    ],
)
def test_a_request_fails_as_the_test_asks(
    fake: FakeDiscord, bot: RawBot, fault: Fault, status: int | None, written: int
) -> None:
    ada = fake.user("ada")
    path = f"/channels/{ada.dm().id}/messages"
    fake.faults.next(fault, at="^POST .*/messages$")
    bot.call("GET", path)  # another request does not fail
    begun = time.monotonic()
    if status is None:
        with pytest.raises(httpx.TransportError):
            bot.http.post(path, json={"content": "x"})
    else:
        assert bot.http.post(path, json={"content": "x"}).status_code == status
    assert fault.how not in {"hang", "hang-after", "slow"} or time.monotonic() - begun >= 0.1
    assert len(ada.dm().messages) == written
    assert (fake.journal[-1].fault, fake.journal[-1].applied) == (fault.how, bool(written))
    if fault.how == "429":
        assert bot.http.post(path, json={"content": "x"}).json()["retry_after"] > 7  # it holds until then
    else:
        bot.send(ada.dm())


def test_a_download_fails_as_the_test_asks(fake: FakeDiscord) -> None:
    ada = fake.user("ada")
    url = ada.write(ada.dm(), "", attachments=[("a.txt", b"abc")]).attachments[0].url
    fake.faults.next(Fault("5xx", status=503), at="/attachments/")
    fake.faults.next(Fault("cut"), at="/attachments/")
    fake.faults.next(Fault("slow", seconds=0.05), at="/attachments/")
    with httpx.Client(trust_env=False) as http:
        assert http.get(url).status_code == 503
        with pytest.raises(httpx.TransportError):
            http.get(url)
        assert http.get(url).content == b"abc"
        assert http.get(url + "x").status_code == 404


def test_what_hangs_is_released(fake: FakeDiscord, bot: RawBot) -> None:
    fake.faults.next(Fault("hang", seconds=60))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bot.http.get, "/users/@me")
        fake.wait_for(lambda: fake.hanging)
        fake.faults.release()
        with pytest.raises(httpx.TransportError):
            waiting.result(5)


def test_a_seed_deals_the_same_faults_again() -> None:
    def outcomes(seed: int) -> list[int | None]:
        dealt = RandomFaults(seed, failed=0.3, cut=0.3)
        with FakeDiscord(limits=RateLimits.loose(), faults=dealt) as fake:
            bot = RawBot(fake)
            with bot.http:
                for _ in range(20):
                    with contextlib.suppress(httpx.TransportError):
                        bot.http.get("/users/@me")
            return [each.status for each in fake.journal]

    assert outcomes(7) == outcomes(7)
    assert set(outcomes(7)) == {200, 502, None}
