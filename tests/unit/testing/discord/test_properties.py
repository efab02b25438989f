"""What holds for any order of events and any size of a page."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_testing.discord import Bot, FakeDiscord, RateLimits
from agent_testing.discord.world.sessions import Session

from .conftest import RawBot


@given(st.lists(st.sampled_from(["send", "hold", "flush"])), st.integers(0, 60))
def test_a_session_numbers_every_event_and_gives_those_after_any_number(steps: list[str], number: int) -> None:
    session = Session("s", Bot(1, "agent", is_bot=True), 0)
    given_events = 0
    for step in steps:
        if step == "flush":
            session.flush()
            continue
        given_events += 1
        (session.dispatch if step == "send" else session.hold)("MESSAGE_CREATE", {"id": given_events})
    for _ in steps:
        session.flush()
    frames = [json.loads(frame) for frame in session.after(0)]
    assert [frame["s"] for frame in frames] == list(range(1, given_events + 1))
    assert sorted(frame["d"]["id"] for frame in frames) == list(range(1, given_events + 1))
    assert session.after(number) == session.after(0)[number:]
    assert session.has_after(number)


def test_a_session_forgets_the_oldest_events_and_says_so() -> None:
    session = Session("s", Bot(1, "agent", is_bot=True), 0)
    for number in range(10_003):
        session.dispatch("MESSAGE_CREATE", {"id": number})
    assert (session.last, session.has_after(2), session.has_after(3)) == (10_003, False, True)
    assert json.loads(session.after(3)[0])["s"] == 4


@settings(max_examples=10)  # each starts a server
@given(st.integers(0, 12), st.integers(1, 5))
def test_pages_of_a_history_joined_are_the_history(count: int, limit: int) -> None:
    with FakeDiscord(limits=RateLimits.loose()) as fake:
        bot, ada = RawBot(fake), fake.user("ada")
        written = [str(ada.write(ada.dm(), str(number)).id) for number in range(count)]
        found: list[str] = []
        with bot.http:
            while True:
                query = {"after": found[-1] if found else "0", "limit": limit}
                page = bot.call("GET", f"/channels/{ada.dm().id}/messages", params=query)
                if not page:
                    break
                found += [each["id"] for each in reversed(page)]
        assert found == written


FIELDS = [
    "content",
    "components",
    "embeds",
    "type",
    "data",
    "nonce",
    "flags",
    "custom_id",
    "attachments",
    "name",
    "options",
]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=5)  # each starts a server, and tries many bodies
@given(st.lists(VALUES, min_size=20, max_size=40))
def test_any_body_is_taken_or_refused_by_name(bodies: list[object]) -> None:
    with FakeDiscord(limits=RateLimits.loose()) as fake:
        bot, ada = RawBot(fake), fake.user("ada")
        fake.bot.commands = [{"id": "1", "name": "new", "type": 1}]
        action = ada.command("new").interaction
        with bot.http:
            for body in bodies:
                for method, path in (
                    ("POST", f"/channels/{ada.dm().id}/messages"),
                    ("POST", f"/interactions/{action.id}/{action.token}/callback"),
                    ("PUT", f"/applications/{fake.bot.id}/commands"),
                ):
                    answer = bot.http.request(method, path, json=body)
                    assert answer.status_code in {200, 204, 400}, answer.text
