"""`agent hub` as a process, against a live host with two agents that talk to each other."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from agent_client.hub import AgentClient, HubClient, Passport, Resume, WebSocketLink
from tests.e2e.live import fresh
from tests.integration.host.live import OPERATOR, PATIENCE

from .conftest import Cli, World

pytestmark = pytest.mark.slow


class Speaker:
    """Two agents of a conversation, on an event loop of their own."""

    def __init__(self, url: str, first: str, second: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = HubClient(WebSocketLink(f"{url.replace('http://', 'ws://')}/hub", token=OPERATOR))
        self.session_id = self._run(self._open(first, second))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    async def _open(self, first: str, second: str) -> str:
        await self._client.register(None, Passport(name=second), Resume(summary="listens"))
        self._speaker: AgentClient = await self._client.register(None, Passport(name=first))
        return (await self._speaker.open(type="conversation", target=second)).session_id

    def say(self, text: str) -> None:
        self._run(self._speaker.session(self.session_id).send(text))

    def close(self) -> None:
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()


@contextmanager
def speaker(world: World) -> Generator[tuple[Speaker, str, str]]:
    first, second = fresh("speaker"), fresh("listener")
    made = Speaker(world.host.url, first, second)
    try:
        yield made, first, second
    finally:
        made.close()


def test_agents_and_sessions_are_listed(world: World, cli: Cli) -> None:
    with speaker(world) as (made, first, second):
        rows = {row[0]: row for row in cli("hub", "agents").rows}
        assert rows[first][1:3] == ["agent", "connected"]
        assert rows[second][-1] == "listens"
        (session,) = cli("hub", "sessions", "--agent", first, "--json").json["sessions"]
        assert (session["session_id"], session["state"]) == (made.session_id, "active")
        (row,) = cli("hub", "sessions", "--agent", first).rows
        assert row[:4] == [made.session_id, "conversation", "active", f"{first}, {second}"]
        assert "no agent nobody-there" in cli("hub", "sessions", "--agent", "nobody-there", code=1).err


def test_a_session_is_followed_from_its_beginning(world: World, cli: Cli) -> None:
    with speaker(world) as (made, first, _second):
        made.say("before \x1b[31mit")
        following = cli.start("hub", "tail", made.session_id)
        assert following.stdout is not None
        lines = [following.stdout.readline() for _ in range(4)]
        assert "ag2.session.invite:" in lines[0]
        assert lines[3].rstrip().endswith(rf"{made.session_id} {first}: before \x1b[31mit")
        made.say("live")
        assert following.stdout.readline().rstrip().endswith(f"{first}: live")
        following.terminate()
        assert following.wait(30) == 130
        following.communicate()


def test_all_sessions_are_followed_from_now_on(world: World, cli: Cli) -> None:
    with speaker(world) as (made, _first, _second):
        made.say("before")
        following = cli.start("hub", "tail", "--json")
        seen = threading.Event()

        def speak() -> None:
            while not seen.wait(0.2):  # nothing tells when it has begun to follow
                made.say("now")

        speaking = threading.Thread(target=speak)
        speaking.start()
        assert following.stdout is not None
        envelope = json.loads(following.stdout.readline())
        seen.set()
        speaking.join(PATIENCE)
        assert (envelope["session_id"], envelope["event_data"]) == (made.session_id, {"text": "now"})
        following.terminate()
        assert following.wait(30) == 130
        following.communicate()


def test_what_cannot_be_followed_is_said_with_its_fix(world: World, cli: Cli) -> None:
    assert "`agent hub sessions` lists those there are" in cli("hub", "tail", "no-such-session", code=1).err
