"""Where a conversation is cut, and how much fits."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.context import ContextWindow, Cut, Step, ToolCallRecord, View, cut_all, cut_for
from agent_runtime.sessions import Marker


def talk(turns: Sequence[Sequence[int]], marker: Marker | None = None) -> View:
    """A view of turns, each a list of steps with so many calls."""
    view = View("prompt", marker=marker)
    for number, steps in enumerate(turns):
        view.add_user([{"type": "text", "text": f"ask {number}"}], message_id=f"msg_{number}")
        for step, calls in enumerate(steps):
            made = [
                ToolCallRecord(f"call_{step}_{at}", "read", {}, {"type": "output", "data": step}) for at in range(calls)
            ]
            view.add_step(Step("" if calls else "answer", made))
    return view


TURNS = st.lists(st.lists(st.integers(0, 3), max_size=6), max_size=6)
MARKERS = st.sampled_from([None, Marker("earlier", 3, auto=True, tail_start_id="msg_0"), Marker("", 0, auto=True)])


@given(TURNS, MARKERS, st.data(), st.integers(1, 5), st.integers(0, 400))
def test_a_cut_makes_progress_and_parts_no_call_from_its_result(
    turns: list[list[int]], marker: Marker | None, data: st.DataObject, most: int, budget: int
) -> None:
    view = talk(turns, marker)
    costs = data.draw(st.lists(st.integers(0, 100), min_size=len(view.messages), max_size=len(view.messages)))
    cut = cut_for(view.cut_points, costs, turns=most, budget=budget)
    begun = [place for place in view.cut_points if place.step == 0]
    if cut is None:
        fits = sum(costs[view.cut_points[0].index :]) <= budget if begun else True
        assert not begun or (begun[-1] is view.cut_points[0] and (len(turns[-1]) <= 1 or fits)), (
            "there was what to sum up"
        )
        return
    start = cut.start
    assert start is not None
    assert start in view.cut_points
    assert cut.head == range(1, start.index), "nothing lies between the summary and the tail"
    assert start.index > view.cut_points[0].index, "what is summed up is more than an earlier summary"
    assert json.loads(view.messages[start.index])["role"] in ("user", "assistant")
    kept = sum(costs[start.index :])
    if start.step:
        turn = next(place for place in begun if place.message_id == start.message_id)
        assert turn is begun[-1], "only the last turn is split"
        kept += costs[turn.index]
        later = [place for place in view.cut_points if place.index > start.index]
        assert cut.tail_tokens <= budget or not later, "more than the last step is kept only where there is room"
    else:
        assert len(begun) - begun.index(start) <= most
        inside = [place for place in view.cut_points if place.step and place.index > begun[-1].index]
        assert cut.tail_tokens <= budget or (start is begun[-1] and len(inside) <= 1)
    assert cut.tail_tokens == kept
    _as_much_as_fits(view, costs, cut, most, budget)


def _as_much_as_fits(view: View, costs: Sequence[int], cut: Cut, most: int, budget: int) -> None:
    begun = [place for place in view.cut_points if place.step == 0]
    fitting = [
        place
        for place in begun[-most:]
        if place.index > view.cut_points[0].index and sum(costs[place.index :]) <= budget
    ]
    if fitting:
        assert cut.start == fitting[0]


@given(TURNS, st.integers(1, 5), st.integers(0, 400))
def test_cuts_in_a_row_come_to_an_end(turns: list[list[int]], most: int, budget: int) -> None:
    """Each leaves fewer messages, until there is nothing left to sum up."""
    view, costs = talk(turns), 10
    before = len(view.messages) + 2
    while (cut := cut_for(view.cut_points, [costs] * len(view.messages), turns=most, budget=budget)) is not None:
        assert cut.start is not None
        assert len(view.messages) < before
        before = len(view.messages)
        marker = Marker("sum", 1, auto=True, tail_start_id=cut.start.message_id, tail_start_step=cut.start.step)
        first = int(cut.start.message_id.removeprefix("msg_"))
        after = View("prompt", marker=marker)
        for number, steps in list(enumerate(turns))[first:]:
            after.add_user([{"type": "text", "text": f"ask {number}"}], message_id=f"msg_{number}")
            for step, calls in enumerate(steps):
                made = [
                    ToolCallRecord(f"call_{step}_{at}", "read", {}, {"type": "output", "data": step})
                    for at in range(calls)
                ]
                after.add_step(Step("" if calls else "answer", made))
        assert list(after.messages[-1:]) == list(view.messages[-1:]), "the end is what it was"
        if len(after.messages) == len(view.messages):
            return  # a summary took the place of one message
        view = after


def test_all_of_a_view_can_be_summed_up_but_not_nothing() -> None:
    view = talk([[0], [1, 0]])
    cut = cut_all(view.cut_points, len(view.messages))
    assert cut is not None
    assert (cut.head, cut.start) == (range(1, len(view.messages)), None)
    behind = View("prompt", marker=Marker("all of it", 3, auto=False))
    assert cut_all(behind.cut_points, len(behind.messages)) is None


@pytest.mark.parametrize(
    ("limit", "output", "wanted", "reserve", "summary"),
    [
        (128_000, None, None, 20_000, 4000),
        (128_000, 8192, None, 8192, 4000),
        (16_000, None, None, 4000, 2000),
        (1_000_000, None, 50_000, 50_000, 4000),
        (16_000, 1000, 2000, 2000, 1000),
        (16_000, None, 900_000, 4000, 2000),
        (1024, None, None, 256, 256),
    ],
)
def test_the_reserve(limit: int, output: int | None, wanted: int | None, reserve: int, summary: int) -> None:
    window = ContextWindow.from_limit(limit, output, wanted)
    assert (window.reserve, window.usable, window.max_summary) == (reserve, limit - reserve, summary)


def test_a_model_that_takes_less_has_a_smaller_reserve_too() -> None:
    window = ContextWindow.from_limit(128_000, None)
    assert window.narrowed(16_000) == ContextWindow(16_000, 4000)
    assert window.narrowed(200_000) is window.narrowed(None) is window
