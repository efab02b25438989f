"""The hub on PostgreSQL: the same rows, and two hubs that append to one log."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from agent_common.protocol.hub import ErrorFrame, ProtocolError
from agent_host.hub import HubLimits
from tests.unit.host.postgresql import new_database, postgresql

from .raw_link import join, open_session, opened


@pytest.fixture(scope="module")
def server() -> Generator[str]:
    with postgresql() as url:
        yield url


@pytest.mark.slow
async def test_what_this_database_cannot_keep_is_refused_and_fails_nothing_else(server: str) -> None:
    async with opened(new_database(server, "nul"), limits=HubLimits(max_attempts=1)) as hub:
        alice, bob = await join(hub, "alice"), await join(hub, "bob")
        session = await open_session(alice, "bob")
        sends = [
            bob.start_send(session, event_data={"text": "kept\0"}),
            alice.start_send(session, idempotency_key="a\0"),
            alice.start_send(session, causation_id="\0"),
            alice.start_send("\0"),
        ]
        kept, *refused = await asyncio.gather(*sends, return_exceptions=True)
        assert isinstance(kept, str)
        assert all(isinstance(one, ProtocolError) for one in refused), refused
        for asked in (("info", {"session_id": "\0"}), ("sessions", {"after": "\0"}), ("open", {"type": "\0"})):
            with pytest.raises(ProtocolError, match="NUL"):
                await alice.ask_own(asked[0], **asked[1])
        alice.subscribe("\0")
        refusal = await alice.others.get()
        assert isinstance(refusal, ErrorFrame)
        assert (refusal.code, "NUL" in refusal.message) == ("protocol_error", True)
        alice.nack(await alice.get_text(), "\0")
        await alice.others.get()
        await hub.store.flush()
        assert len(await hub.store.dead_letters(0, 9)) == 1


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
