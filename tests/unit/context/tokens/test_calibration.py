"""A meter learns what a model makes of texts, and is not led astray."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.context.tokens import TokenCalibration, TokenCalibrations
from agent_runtime.context.tokens.calibration import MAX_FACTOR, MAX_WEIGHT, MIN_FACTOR, MIN_SAMPLE


def taught(*samples: tuple[float, int]) -> TokenCalibration:
    meter = TokenCalibration("some-model")
    for estimated, reported in samples:
        meter.learn(estimated, reported)
    return meter


def test_nothing_is_assumed_of_a_model() -> None:
    assert (TokenCalibration("x").factor, TokenCalibration("x").calibrated, TokenCalibration("x").encoding) == (
        1.0,
        False,
        None,
    )
    assert TokenCalibration("openai/gpt-4o").encoding == "o200k_base"


def test_the_first_report_is_taken_as_it_is() -> None:
    meter = taught((1000, 1400))
    assert meter.factor == pytest.approx(1.4)
    assert meter.calibrated


def test_later_reports_move_it_and_the_latest_count_most() -> None:
    assert taught((1000, 1000), (1000, 1200)).factor == pytest.approx(1.1)
    drifting = taught(*[(2000, 2000)] * 5, *[(2000, 2600)] * 4)
    assert 1.2 < drifting.factor < 1.3


def test_a_whole_request_says_less_than_what_came_since() -> None:
    meter = TokenCalibration("x")
    meter.learn(6000, 4200, whole_request=True)
    assert meter.factor == pytest.approx(0.7)
    meter.learn(2000, 2000)
    assert meter.factor == pytest.approx(0.94, abs=0.01)
    meter.learn(20_000, 14_000, whole_request=True)
    assert meter.factor == pytest.approx(0.94, abs=0.01)


@pytest.mark.parametrize(
    ("estimated", "reported"),
    [
        (1000, 0),
        (1000, -5),
        (1000, 3),
        (1000, 1_000_000),
        (0, 0),
        (0, 500),
        (MIN_SAMPLE - 1, 400),
        (-50, 100),
        (1000, 2**62),
    ],
)
def test_nonsense_changes_nothing(estimated: float, reported: int) -> None:
    meter = taught((1000, 1300))
    for _ in range(5):
        meter.learn(estimated, reported)
    assert meter.factor == pytest.approx(1.3)


def test_an_outlier_changes_nothing_and_a_second_one_does() -> None:
    meter = taught((1000, 1300), (1000, 3000))
    assert meter.factor == pytest.approx(1.3)
    meter.learn(1000, 1300)  # what came between proves the outlier wrong
    meter.learn(1000, 3000)
    assert meter.factor == pytest.approx(1.3)
    meter.learn(1000, 2900)
    assert meter.factor == pytest.approx(2.9)


def test_what_is_sure_is_believed_at_once() -> None:
    meter = taught((1000, 1000))
    meter.learn(1000, 2000, whole_request=True, trusted=True)
    assert meter.factor == pytest.approx(2.0)


@given(st.lists(st.tuples(st.floats(-1e6, 1e9), st.integers(-(2**63), 2**63), st.booleans(), st.booleans())))
def test_the_factor_stays_in_its_bounds(samples: list[tuple[float, int, bool, bool]]) -> None:
    meter = TokenCalibration("x")
    for estimated, reported, whole, sure in samples:
        meter.learn(estimated, reported, whole_request=whole, trusted=sure)
    assert MIN_FACTOR <= meter.factor <= MAX_FACTOR


@given(
    st.floats(0.7, 1.6),
    st.lists(st.tuples(st.integers(MIN_SAMPLE, 20_000), st.floats(0.9, 1.1)), min_size=3, max_size=20),
    st.integers(0, 19),
    st.floats(MIN_FACTOR, MAX_FACTOR),
)
def test_one_report_that_is_wrong_leaves_the_factor_near_the_truth(
    hidden: float, samples: list[tuple[int, float]], at: int, wrong: float
) -> None:
    """Behind the first: what that one says is all there is."""
    meter = TokenCalibration("x")
    for number, (estimated, noise) in enumerate(samples):
        if number == 1 + at % len(samples):
            meter.learn(estimated, round(estimated * wrong))
        meter.learn(estimated, round(estimated * hidden * noise))
    assert hidden * 0.6 < meter.factor < hidden * 1.67


def test_learning_does_not_slow_down_with_what_was_learnt() -> None:
    meter = taught(*[(MAX_WEIGHT, MAX_WEIGHT)] * 1000)
    for _ in range(6):
        meter.learn(MAX_WEIGHT, round(MAX_WEIGHT * 1.4))
    assert meter.factor > 1.35


def test_there_is_one_meter_for_a_model_and_a_bound_to_them() -> None:
    meters = TokenCalibrations({}, max_models=3)
    first = meters.for_model("a")
    assert meters.for_model("a") is first
    for name in ("b", "c"):
        meters.for_model(name)
    assert meters.for_model("a") is first
    meters.for_model("d")
    assert meters.for_model("a") is first
    second = meters.for_model("b")
    assert second.factor == 1.0
    assert len(meters._by_model) == 3
