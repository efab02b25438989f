"""A client that sends too much is read slowly; others are not."""

from __future__ import annotations

import asyncio

import pytest

from agent_common.protocol.hub import RequestFrame
from agent_host.hub.byte_quota import FREE_BYTES, SLOW, ByteQuota
from agent_testing import ManualClock

from .raw_link import join, opened


def wait_after(quota: ByteQuota, client: str, size: int) -> float:
    quota.spend(client, size)
    return quota.wait_seconds(client)


def test_what_is_beyond_the_free_bytes_is_waited_for_and_they_come_back_within_an_hour() -> None:
    clock = ManualClock()
    quota = ByteQuota(clock)
    assert wait_after(quota, "ann", FREE_BYTES) == 0
    assert wait_after(quota, "ann", SLOW) == 1
    assert wait_after(quota, "ann", SLOW) == 2, "several links share the slow rate"
    assert wait_after(quota, "ben", SLOW) == 0
    clock.advance(2)
    assert quota.wait_seconds("ann") == 0
    clock.advance(1800)
    assert wait_after(quota, "ann", FREE_BYTES // 2) == 0
    assert wait_after(quota, "ann", 2 * SLOW) == 2
    clock.advance(7200)
    assert wait_after(quota, "ann", FREE_BYTES + SLOW) == 1, "no more than that is saved up"


def test_who_was_last_seen_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_host.hub.byte_quota._MOST_CLIENTS", 2)
    quota = ByteQuota(ManualClock())
    for name in ("ann", "ben", "ann", "eve"):
        quota.spend(name, FREE_BYTES // 2)
    assert wait_after(quota, "ann", SLOW) == 1
    assert wait_after(quota, "ben", SLOW) == 0


async def test_links_of_an_agent_are_read_slowly_together_and_those_of_an_operator_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent_host.hub.byte_quota.FREE_BYTES", 1000)
    monkeypatch.setattr("agent_host.hub.byte_quota.SLOW", 10_000)
    loop = asyncio.get_running_loop()
    question = RequestFrame(request_id="1", op="list_agents")
    async with opened() as hub:
        alice = await join(hub, "alice", identity="alice")
        began = loop.time()
        alice.link.receive(question, 3000)
        again = await join(hub, "alice", identity="alice")
        again.link.receive(question, 2000)
        await again.link.readable()
        assert loop.time() - began > 0.39, "a new link waits for what the others have sent"
        operator = await join(hub, "bob")
        operator.link.receive(question, 1 << 30)
        await asyncio.wait_for(operator.link.readable(), 60)
