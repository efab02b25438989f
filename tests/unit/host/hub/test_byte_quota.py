"""Who fills the disk by a link is read slowly, and nobody else is."""

from __future__ import annotations

import asyncio

import pytest

from agent_common.protocol.hub import RequestFrame
from agent_host.hub.byte_quota import FREE_BYTES, SLOW, ByteQuota
from agent_testing import ManualClock

from .raw_link import join, opened


def test_what_is_beyond_the_free_bytes_is_waited_for_and_they_come_back_within_an_hour() -> None:
    clock = ManualClock()
    quota = ByteQuota(clock)
    assert quota.spend("ann", FREE_BYTES) == 0
    assert quota.spend("ann", SLOW) == 1
    assert quota.spend("ben", SLOW) == 0
    clock.advance(1800)
    assert quota.spend("ann", FREE_BYTES // 2) == 0
    assert quota.spend("ann", 2 * SLOW) == 2
    clock.advance(7200)
    assert quota.spend("ann", FREE_BYTES + SLOW) == 1, "no more than that is saved up"


def test_who_was_last_seen_longest_ago_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_host.hub.byte_quota._MOST_CLIENTS", 2)
    quota = ByteQuota(ManualClock())
    for name in ("ann", "ben", "ann", "eve"):
        quota.spend(name, FREE_BYTES)
    assert quota.spend("ann", SLOW) == 1
    assert quota.spend("ben", SLOW) == 0


async def test_a_link_of_an_agent_is_read_slowly_and_a_new_one_of_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent_host.hub.byte_quota.FREE_BYTES", 1000)
    monkeypatch.setattr("agent_host.hub.byte_quota.SLOW", 10_000)
    loop = asyncio.get_running_loop()
    async with opened() as hub:
        for _ in range(2):
            alice = await join(hub, "alice", identity="alice")
            began = loop.time()
            alice.link.receive(RequestFrame(request_id="1", op="list_agents"), 3000)
            await alice.link.written()
            assert loop.time() - began > 0.19
        operator = await join(hub, "bob")
        operator.link.receive(RequestFrame(request_id="1", op="list_agents"), 1 << 30)
        await asyncio.wait_for(operator.link.written(), 60)
