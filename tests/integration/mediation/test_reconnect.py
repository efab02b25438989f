"""Nobody listens, or nobody stays: a guest tries for ever, and not in a hurry."""

from __future__ import annotations

import pytest

from agent_runtime.mediation.channel.backoff import ReconnectBackoff

from .pair import LONGEST, Pair

WAITS = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0)


@pytest.mark.parametrize("trouble", ["accepted and closed", "refused at the door"])
async def test_who_gets_nowhere_tries_less_and_less_often_and_never_gives_up(pair: Pair, trouble: str) -> None:
    if trouble == "accepted and closed":
        pair.bridge.host_is_down = True
    else:
        pair.bridge.refuse()
    guest = await pair.guest()
    await pair.pass_time(3, step=0.1)
    assert 3 <= guest.states.count("dialing") <= 6, "it waits longer each time"
    await pair.pass_time(10)
    tried = guest.states.count("dialing")
    await pair.pass_time(20, step=0.5)
    assert tried + 3 <= guest.states.count("dialing") <= tried + 5, "and five seconds in the end"
    assert not guest.channel.ready
    pair.bridge.host_is_down = False
    pair.bridge.restore()
    await pair.pass_time(10)
    await pair.ready(guest)
    await pair.submit()
    await pair.until(lambda: guest.hands.pieces)
    await guest.hands.pieces["r1"].finish()
    await pair.once(guest)


async def test_a_host_that_comes_and_goes_does_not_make_it_hurry(pair: Pair) -> None:
    """An attachment that lasts no ten seconds does not set the waits back; one that does, does."""
    guest = await pair.attached()
    for _ in range(6):
        pair.bridge.cut()
        await pair.until(lambda: guest.channel.state == "broken")
        await pair.pass_time(5)
        await pair.ready(guest)
    pair.bridge.cut()
    await pair.until(lambda: guest.channel.state == "broken")
    await pair.pass_time(3, step=0.5)
    assert guest.channel.state == "broken", "five seconds, and not a tenth of one"
    await pair.pass_time(5)
    await pair.ready(guest)
    await pair.pass_time(15)
    pair.bridge.cut()
    await pair.until(lambda: guest.breaks == 8)
    await pair.ready(guest)  # at once, and no time was made to pass


def test_waits_double_up_to_five_seconds_and_start_anew_after_a_good_one() -> None:
    pace = ReconnectBackoff(LONGEST)
    assert [pace.next_delay(attached=0.0, fenced=False) for _ in WAITS] == pytest.approx(WAITS)
    assert pace.next_delay(attached=9.9, fenced=False) == 5.0
    assert pace.next_delay(attached=10.0, fenced=False) == 0.1
    assert pace.next_delay(attached=0.0, fenced=True) == 120.0
    drawn = [ReconnectBackoff().next_delay(attached=10.0, fenced=False) for _ in range(100)]
    assert 0.0 <= min(drawn) < 0.05 < max(drawn) <= 0.1, "anywhere between nothing and all of it"
