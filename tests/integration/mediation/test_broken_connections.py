"""The connection breaks at each place of a request's way, and in each way in which a bridge breaks: it ends once."""

from __future__ import annotations

import threading
from typing import Literal

import pytest

from agent_testing.bridge import Trip

from .pair import NAME, PATIENCE, Guest, Pair

Way = Literal["to_host", "to_guest"]

PLACES: dict[str, tuple[Way, bytes]] = {
    "within the request": ("to_guest", b'"principal"'),
    "before accepting": ("to_host", b'"accepting"'),
    "after accepting, within the result": ("to_host", b'"status"'),
    "between the result and completed": ("to_host", b'"signal":"completed"'),
    "before the acknowledgement": ("to_guest", b'"what"'),
}
RESULTS = "SELECT epoch FROM work_audit WHERE direction = 'in' AND type = 'result'"


async def carried_out(pair: Pair, guest: Guest, request_id: str) -> None:
    """Its worker does what it is given, and it ends once."""
    await pair.until(lambda: request_id in guest.hands.pieces)
    await guest.hands.pieces[request_id].finish()
    await pair.once(guest, request_id)


@pytest.mark.parametrize("how", ["rst", "fin"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_break_anywhere_on_the_way_of_a_request(pair: Pair, place: str, how: Literal["rst", "fin"]) -> None:
    guest = await pair.attached(window=1)
    way, mark = PLACES[place]
    pair.bridge.trip(way, Trip(how, mark=mark))
    await pair.submit()
    await carried_out(pair, guest, "r1")
    assert pair.bridge.counts.breaks == 1
    await pair.until(lambda: guest.breaks == 1)
    await pair.ready(guest)
    await pair.submit("r2")
    await carried_out(pair, guest, "r2")  # the place of the first is free


async def test_a_result_that_was_written_and_never_read_is_said_again(pair: Pair) -> None:
    """All of it has left the guest, and the host dies before it looks."""
    guest = await pair.attached()
    piece = await pair.begun(guest)
    pair.bridge.stall("to_host", pair.bridge.links[0])
    await piece.finish()
    await pair.until(lambda: len(guest.clerk.active) == 0)
    await pair.settle()
    assert (await pair.listener.get("r1")).status == "accepted"
    pair.bridge.cut()
    await pair.once(guest)


async def test_a_snapshot_of_a_guest_that_works_costs_its_connection_and_nothing_else(pair: Pair) -> None:
    guest = await pair.attached(required=True)
    piece = await pair.begun(guest)
    assert pair.bridge.snapshot() == 1
    await pair.until(lambda: pair.epoch == 2)
    await pair.ready(guest)
    assert (await pair.listener.get("r1")).status == "accepted"
    await piece.finish()
    await pair.once(guest)


async def test_a_guest_that_is_back_before_its_old_end_is_seen_has_the_place(pair: Pair) -> None:
    guest = await pair.attached()
    piece = await pair.begun(guest)
    old = pair.bridge.reorder()
    await pair.until(lambda: pair.epoch == 2)
    await pair.ready(guest)
    await piece.finish()
    await pair.once(guest)
    pair.bridge.release_eof()
    await pair.until(lambda: not any(link in pair.bridge.links for link in old))
    assert (pair.epoch, guest.breaks) == (2, 1), "the end of the old one is not the end of the new one"


@pytest.mark.parametrize("way", ["to_host", "to_guest"])
async def test_half_an_end_is_an_end(pair: Pair, way: Way) -> None:
    guest = await pair.attached()
    piece = await pair.begun(guest)
    pair.bridge.half_close(way)
    await pair.until(lambda: pair.epoch == 2)
    await pair.ready(guest)
    await piece.finish()
    await pair.once(guest)


async def test_a_guest_whose_disk_stalls_while_it_accepts_ends_the_work_all_the_same(pair: Pair) -> None:
    guest = await pair.attached(window=1)
    disk = threading.Event()
    stalled = guest.database.write(lambda _: disk.wait(PATIENCE))
    await pair.submit()
    await pair.until(lambda: pair.listener.ledger.active["r1"].timer is not None)
    pair.loop.leap(10.1)
    await pair.until(lambda: "accept_timeout" in pair.host_breaks)
    disk.set()
    await stalled

    async def begun() -> bool:
        return "r1" in guest.hands.pieces and (await pair.listener.get("r1")).status in ("accepted", "resulted")

    await pair.until(begun)
    await carried_out(pair, guest, "r1")


async def test_a_guest_that_is_drained_while_it_attaches_brings_its_results_first(pair: Pair) -> None:
    guest = await pair.attached()
    piece = await pair.begun(guest)
    pair.bridge.host_is_down = True
    pair.bridge.cut()
    await pair.until(lambda: guest.breaks)
    await piece.finish()
    disk = threading.Event()
    stalled = guest.database.write(lambda _: disk.wait(PATIENCE))
    pair.bridge.host_is_down = False
    pair.loop.leap(5)
    await pair.until(lambda: pair.epoch == 2)
    await pair.listener.workspaces.drain(NAME, 600)
    disk.set()
    await stalled
    await pair.ended()
    rows = await pair.database.run(lambda connection: connection.exec_driver_sql(RESULTS).all())
    assert [tuple(row) for row in rows] == [(2,)], "and not at its next attachment"
