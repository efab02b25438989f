"""An agent as a process of its own, which says text after text and writes down what the hub has acknowledged.

    python -m tests.e2e.host.hub_kills.speaker NAME TARGET JOURNAL STOP URL...

The token is in the environment. A new process of the same journal goes on where the one before was killed. Once the
file STOP is there it says nothing more, waits until all it has said is answered, and ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from agent_client.hub import AgentClient, HubClient, NetworkError, Passport, Session, WebSocketLink
from tests.integration.host.live import PATIENCE

T = TypeVar("T")
MOST_UNANSWERED = 3
_PAUSE = 0.02


class Journal:
    """What is acknowledged: the session, then the id of each text in its turn."""

    def __init__(self, path: Path) -> None:
        lines = path.read_text().split("\n")[:-1] if path.exists() else []  # the last one may have been cut
        kept = [json.loads(line) for line in lines]
        self.session_id: str | None = kept[0] if kept else None
        self.ids: list[str] = kept[1:]
        self._file = path.open("w")
        for line in kept:
            self.add(line)

    def add(self, line: str) -> None:
        self._file.write(f"{json.dumps(line)}\n")
        self._file.flush()


async def insist(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call until the hub takes it."""
    async with asyncio.timeout(5 * PATIENCE):
        while True:
            try:
                return await call()
            except (NetworkError, TimeoutError) as error:
                print(f"again: {error!r}", flush=True)
                await asyncio.sleep(0.1)


class Speaker:
    def __init__(self, client: AgentClient, session: Session, journal: Journal) -> None:
        self._client, self._session, self._journal = client, session, journal
        self._answered: set[str | None] = set()

    async def speak(self, stop: Path) -> None:
        listening = asyncio.create_task(self._listen())
        try:
            while not await asyncio.to_thread(stop.exists):
                await self._say(len(self._journal.ids))
                await self._wait_for_answers(MOST_UNANSWERED)
            await self._wait_for_answers(0)
        finally:
            listening.cancel()

    async def _say(self, number: int) -> None:
        """A text that was sent before, and not written down, is the same envelope."""
        text = f"{self._client.passport.name}-{number}"
        said = await insist(lambda: self._session.send(text, idempotency_key=text))
        self._journal.ids.append(said)
        self._journal.add(said)

    async def _listen(self) -> None:
        while True:
            event = await insist(
                lambda: self._client.wait_for_session_event(self._session.session_id, lambda one: bool(one.text))
            )
            self._answered.add(event.causation_id)

    async def _wait_for_answers(self, most: int) -> None:
        """Who started this process sees to it that it ends."""
        while len(set(self._journal.ids) - self._answered) > most:
            await asyncio.sleep(_PAUSE)


async def main(name: str, target: str, journal: Path, stop: Path, urls: list[str]) -> None:
    hub = HubClient(WebSocketLink(urls, token=os.environ["HUB_TOKEN"], direct=True))
    client = await insist(lambda: hub.register(None, Passport(name=name)))
    known = Journal(journal)
    if known.session_id is None:
        session = await insist(lambda: client.open(type="conversation", target=target))
        known.add(session.session_id)
    else:
        session = client.session(known.session_id)
    await Speaker(client, session, known).speak(stop)
    await hub.close()


if __name__ == "__main__":
    own, other, path, end, *addresses = sys.argv[1:]
    asyncio.run(main(own, other, Path(path), Path(end), addresses))
