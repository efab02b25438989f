"""When a provider rests, and for how long."""

from __future__ import annotations

from agent_host.proxy import CatalogModel, CircuitBreaker
from agent_testing import ManualClock

MODELS = [CatalogModel("a", "first", "a"), CatalogModel("b", "second", "b")]


def names(breaker: CircuitBreaker, models: list[CatalogModel] = MODELS) -> list[str]:
    return [model.name for model in breaker.usable(models)]


def broken(breaker: CircuitBreaker, times: int = 3, provider: str = "first") -> None:
    for _ in range(times):
        breaker.note(provider, outage=True)


def test_it_rests_after_three_outages_in_a_row() -> None:
    breaker = CircuitBreaker(ManualClock())
    broken(breaker, 2)
    breaker.note("first", outage=False)
    broken(breaker, 2)
    assert names(breaker) == ["a", "b"]
    broken(breaker, 1)
    assert names(breaker) == ["b"]
    assert breaker.resting() == {"first": 15}


def test_one_call_tries_it_and_the_rest_doubles_until_it_is_back() -> None:
    clock = ManualClock()
    breaker = CircuitBreaker(clock)
    broken(breaker)
    rests: list[float] = []
    for _ in range(7):
        (rest,) = breaker.resting().values()
        rests.append(rest)
        clock.advance(rest)
        assert names(breaker) == ["a", "b"], "the trial"
        assert names(breaker) == ["b"], "meanwhile the others leave it alone"
        broken(breaker, 1)
    assert rests == [15, 30, 60, 120, 240, 300, 300]
    breaker.note("first", outage=False)
    assert names(breaker) == ["a", "b"]
    assert breaker.resting() == {}


def test_where_all_rest_the_last_is_asked() -> None:
    breaker = CircuitBreaker(ManualClock())
    broken(breaker)
    assert names(breaker, MODELS[:1]) == ["a"], "without a fallback it is always asked"
    broken(breaker, provider="second")
    assert names(breaker) == ["b"]
