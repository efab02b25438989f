"""The hub on PostgreSQL: the same rows, and two hubs that append to one log."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from tests.unit.host.postgresql import new_database, postgresql

from .raw_link import join, open_session, opened


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    with postgresql() as url:
        yield url


@pytest.mark.slow
async def test_two_hubs_on_one_server_lose_and_repeat_nothing(server: str) -> None:
    url = new_database(server, "hub")
    async with opened(url) as one, opened(url) as other:
        alice, _ = await join(one, "alice"), await join(one, "bob", key="k")
        session = await open_session(alice, "bob")
        bob = await join(other, "bob", key="k")
        sends = [
            link.start_send(session, event_data={"text": str(n)}, idempotency_key=str(n))
            for n in range(50)
            for link in (alice, bob)
        ]
        await asyncio.gather(*sends)
        log = (await one.queries.log(None, session, 0, 500)).envelopes
        assert [envelope.sequence for envelope in log] == list(range(1, len(log) + 1))
        for link in (alice, bob):
            texts = [envelope.text for envelope in log if envelope.sender_id == link.agent_id and envelope.text]
            assert texts == [str(n) for n in range(50)]
    async with opened(url) as hub:
        alice = await join(hub, "alice")
        assert await alice.send(session, "7", idempotency_key="7") in {envelope.envelope_id for envelope in log}
        letters = await hub.store.dead_letters(0, 9)
        assert (letters, len(await hub.store.open_sessions())) == ([], 1)
