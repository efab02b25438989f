"""Nothing comes any more, for seconds or for months: who is taken for dead, when, and who is not."""

from __future__ import annotations

from typing import Literal

import pytest

from .pair import NAME, Pair

DAYS = 86_400_000


async def test_heartbeats_keep_an_idle_channel_for_ten_minutes(pair: Pair) -> None:
    guest = await pair.attached()
    await pair.pass_time(600)
    assert (guest.breaks, pair.epoch, pair.host_breaks) == (0, 1, {}), guest.errors
    assert guest.channel.ready


async def test_both_ends_take_45_seconds_of_silence_for_the_end(pair: Pair) -> None:
    guest = await pair.attached(required=True)
    piece = await pair.begun(guest)
    pair.bridge.stall()
    await pair.pass_time(40)
    assert (guest.breaks, pair.epoch) == (0, 1), "it may still come"
    await pair.pass_time(10)
    assert pair.epoch == 0
    assert pair.host_breaks == {"heartbeat_lost": 1}
    await pair.pass_time(15)
    assert guest.errors[0] == "the host has said nothing for 45 s"
    pair.bridge.release()
    await pair.until(lambda: pair.epoch > 1 and guest.channel.ready)
    await piece.finish()
    await pair.once(guest)


@pytest.mark.parametrize("way", ["to_host", "to_guest"])
async def test_one_deaf_ear_is_enough(pair: Pair, way: Literal["to_host", "to_guest"]) -> None:
    guest = await pair.attached()
    piece = await pair.begun(guest)
    pair.bridge.stall(way, pair.bridge.links[0])
    await pair.pass_time(65)
    assert guest.breaks == 1
    await pair.until(lambda: pair.epoch > 1 and guest.channel.ready)
    await piece.finish()
    await pair.once(guest)


async def test_a_bridge_that_stands_still_for_30_seconds_costs_nothing(pair: Pair) -> None:
    guest = await pair.attached()
    piece = await pair.begun(guest)
    pair.bridge.stall()
    await piece.finish()
    await pair.pass_time(30)
    pair.bridge.release()
    await pair.once(guest)
    assert (guest.breaks, pair.epoch, pair.host_breaks) == (0, 1, {}), guest.errors


async def test_a_machine_that_stands_still_as_it_attaches_is_not_cut_off(pair: Pair) -> None:
    guest = await pair.attached()
    pair.loop.leap(9)
    await pair.pass_time(60)
    assert (guest.breaks, pair.epoch, pair.host_breaks) == (0, 1, {}), guest.errors


async def test_a_pause_of_five_minutes_is_nobodys_death(pair: Pair) -> None:
    """The machine stands still, so that its clock is five minutes further when it looks at it again."""
    guest = await pair.attached(required=True)
    piece = await pair.begun(guest)
    await pair.pass_time(20)
    pair.listener.workspaces.pause(NAME)
    pair.loop.leap(300)
    await pair.settle()
    pair.listener.workspaces.unpause(NAME)
    await pair.pass_time(60)
    assert (guest.breaks, pair.epoch, pair.host_breaks) == (0, 1, {}), guest.errors
    await piece.finish()
    await pair.once(guest)


@pytest.mark.parametrize("days", [30, -30])
@pytest.mark.parametrize("who", ["guest", "host", "both"])
async def test_a_wall_clock_that_jumps_and_comes_back_loses_nothing(pair: Pair, who: str, days: int) -> None:
    guest = await pair.attached()
    kept = await pair.begun(guest, "kept")
    running = await pair.begun(guest, "running")
    clocks = [clock for clock, side in ((guest.clock, "guest"), (pair.clock, "host")) if who in (side, "both")]
    pair.bridge.host_is_down = True
    pair.bridge.cut()
    await kept.finish()  # its result waits in the outbox while the months pass
    await pair.until(lambda: len(guest.clerk.active) == 1)
    for clock in clocks:
        clock.wall_ahead_ms = days * DAYS
    await pair.pass_time(5)
    pair.bridge.host_is_down = False
    await pair.pass_time(5)
    await pair.until(lambda: guest.channel.ready and pair.epoch)
    await pair.ended("kept")
    later = await pair.begun(guest, "later")
    for clock in clocks:
        clock.wall_ahead_ms = 0
    await pair.pass_time(30)
    await running.finish()
    await later.finish()
    for name in ("kept", "running", "later"):
        await pair.once(guest, name)
