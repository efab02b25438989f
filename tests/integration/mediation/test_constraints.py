"""Constraints that come while nothing runs and while something does, of each severity, from one end to the other."""

from __future__ import annotations

import pytest

from agent_common.protocol.work import Severity

from .pair import NAME, Guest, Pair

SEVERITIES: tuple[Severity, ...] = ("LOW", "MEDIUM", "HIGH", "CRITICAL")
PAYLOAD = "Sag <b>„äöü“ & so</b> \u2028 ☂".encode()


async def acknowledged(pair: Pair, guest: Guest, version: int) -> None:
    """Both ends agree about what holds."""

    async def fits() -> bool:
        ready = await pair.listener.workspaces.readiness(NAME)
        return ready is not None and ready.acked_version == version and ready.ready

    await pair.until(fits)
    assert (guest.constraints.active.version, guest.constraints.active.instructions) == (version, PAYLOAD.decode())


@pytest.mark.parametrize("severity", SEVERITIES)
async def test_who_has_nothing_to_do_takes_them_at_once(pair: Pair, severity: Severity) -> None:
    guest = await pair.attached()
    await pair.listener.workspaces.push_constraints(NAME, 3, PAYLOAD, severity=severity)
    await pair.submit()
    await acknowledged(pair, guest, 3)
    await pair.until(lambda: guest.hands.pieces)
    assert guest.hands.pieces["r1"].request.constraints_version == 3
    await guest.hands.pieces["r1"].finish()
    await pair.once(guest)
    assert pair.listener.metrics.labels("alarms") == {}


@pytest.mark.parametrize("severity", SEVERITIES)
async def test_who_works_ends_its_work_under_mild_ones_and_stops_for_urgent_ones(
    pair: Pair, severity: Severity
) -> None:
    guest = await pair.attached()
    piece = await pair.begun(guest)
    await pair.listener.workspaces.push_constraints(NAME, 3, PAYLOAD, severity=severity)
    await pair.submit("next")
    if severity in ("LOW", "MEDIUM"):
        await pair.settle()
        assert (guest.constraints.active.version, piece.over.is_set()) == (0, False)
        await piece.finish()
    await pair.until(piece.over.is_set)
    record = await pair.ended()
    assert record.result is not None
    error = (record.result.error or "").split(":")[0]
    assert error == ("" if severity in ("LOW", "MEDIUM") else "constraints")  # what a worker is told to stop for
    await acknowledged(pair, guest, 3)
    await pair.until(lambda: "next" in guest.hands.pieces)
    assert guest.hands.pieces["next"].request.constraints_version == 3, "nothing begins under the old ones"
    await guest.hands.pieces["next"].finish()
    await pair.once(guest, "next")
