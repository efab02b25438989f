"""Forks and restores of live guests: never two of them work, and nothing runs twice.

See docs/reference/mediation.md#breaks.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.e2e.live import eventually
from tests.soak.model import FINAL, Orders, answer_to

from .copies import Ward, given, is_in, lines, turns

QUICK = ("bash",)
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def ward() -> Iterator[Ward]:
    """In a folder of its own: a socket's path must be short."""
    with TemporaryDirectory(prefix="med") as folder, Ward(Path(folder)) as ward:
        yield ward


def finals(ward: Ward, owner: str) -> int:
    return sum(ask.owner == owner and ask.place == FINAL for ask in ward.model.asks)


@pytest.mark.slow
def test_of_two_that_wake_from_the_same_data_one_works(ward: Ward) -> None:
    first = ward.wake("one")
    assert ward.submit(Orders("before", QUICK)) == 202
    assert ward.ended("before")["result"]["content"] == answer_to(Orders("before", QUICK))
    ward.snapshot(first.process, "one", "two")
    first.process.kill9()
    with ThreadPoolExecutor() as pool:
        waking = pool.submit(ward.wake, "two")
        first.start()
        second = waking.result()
    eventually(lambda: {first.status()["channel"], second.status()["channel"]} == {"ready", "fenced"})
    works, rests = (first, second) if first.status()["channel"] == "ready" else (second, first)
    for number in range(5):
        assert ward.submit(Orders(f"after-{number}", QUICK)) == 202
    for number in range(5):
        assert ward.ended(f"after-{number}")["result"]["status"] == "completed"
    assert given(works) == {"before", *(f"after-{number}" for number in range(5))}
    assert given(rests) == {"before"}
    assert rests.status()["channel"] == "fenced"
    epoch = ward.attached()
    works.process.kill9()
    eventually(lambda: ward.attached() == 0)
    rests.start()  # sooner than by itself, which takes a minute or two
    is_in(rests, "ready")
    assert ward.attached() > epoch
    works.start()
    is_in(works, "fenced")
    assert ward.submit(Orders("last", QUICK)) == 202
    assert ward.ended("last")["result"]["status"] == "completed"
    assert "last" in given(rests) - given(works)
    assert {entry["detail"] for entry in ward.trail("alarm.superseded")}
    happened = [entry["type"] for entry in ward.trail("attached", "detached")]
    assert happened == ["attached", "detached"] * (len(happened) // 2) + ["attached"], "never two at the same time"


@pytest.mark.slow
def test_work_that_was_under_way_when_the_guest_was_copied_goes_on_in_one_of_them(ward: Ward) -> None:
    orders = Orders("forked", ("bash", "bash"), linger=1.5)
    first = ward.wake("one")
    ward.submit(orders)
    eventually(lambda: lines(first))
    ward.snapshot(first.process, "one", "two")
    first.process.kill9()
    first.start()
    is_in(first, "ready", "busy")
    second = ward.wake("two", AGENT_MEDIATION_GRACE=2)
    is_in(second, "fenced")
    record = ward.ended("forked")
    assert (record["result"]["status"], record["attempts"]) == ("completed", 1), record
    assert record["result"]["content"] == answer_to(orders)
    assert [line.split(":")[1] for line in lines(first)] == ["0", "1"]
    assert [line.split(":")[1] for line in lines(second)] == ["0"], "the other one has only what it was copied with"
    assert (finals(ward, "forked"), turns(first, "forked"), turns(second, "forked")) == (1, 1, 1)
    # Alone at last, the copy hears that what it holds is long over.
    first.process.kill9()
    eventually(lambda: ward.attached() == 0)
    second.process.kill9()
    second.start()
    is_in(second, "ready", "busy")
    eventually(lambda: second.sql("SELECT acked_at FROM work")[0][0] is not None)
    assert ward.ended("forked") == record
    assert finals(ward, "forked") == 1


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "during", "after"])
def test_a_guest_that_is_set_back_does_nothing_again(ward: Ward, moment: str) -> None:
    orders = Orders("restored", ("bash",), linger=1.0)
    guest = ward.wake("one")
    is_in(guest, "ready")
    if moment == "before":
        ward.snapshot(guest.process, "one", "copy")
    ward.submit(orders)
    if moment == "during":
        eventually(lambda: lines(guest))
        ward.snapshot(guest.process, "one", "copy")
    record = ward.ended("restored")
    if moment == "after":
        ward.snapshot(guest.process, "one", "copy")
    guest.process.kill9()
    eventually(lambda: ward.attached() == 0)
    ward.restore("copy", "one")
    guest.start()
    is_in(guest, "ready")
    assert ward.submit(orders) == 200
    assert ward.ended("restored") == record
    assert record["result"]["content"] == answer_to(orders)
    assert ward.submit(Orders("next")) == 202
    assert ward.ended("next")["result"]["status"] == "completed"
    assert finals(ward, "restored") == 1
    assert len(lines(guest)) == (moment != "before")
    eventually(lambda: not guest.sql("SELECT 1 FROM work WHERE acked_at IS NULL"))


@pytest.mark.slow
def test_a_host_that_is_set_back_takes_the_result_that_its_guest_still_has(ward: Ward) -> None:
    """It has forgotten the end, not the request: it asks once more, and the guest says again what it said."""
    orders = Orders("twice", ("bash",), linger=1.0)
    guest = ward.wake("one")
    ward.submit(orders)
    eventually(lambda: lines(guest))
    ward.snapshot(ward.host.process, "mesh", "mesh-copy")
    first = ward.ended("twice")
    ward.host.process.kill9()
    ward.restore("mesh-copy", "mesh")
    ward.host.start()
    again = ward.ended("twice")
    assert again["result"]["content"] == first["result"]["content"] == answer_to(orders)
    assert again["result"]["completed_at"] == first["result"]["completed_at"], "said again, not done again"
    assert (finals(ward, "twice"), len(lines(guest)), turns(guest, "twice")) == (1, 1, 1)
