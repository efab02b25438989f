"""OpenAI's usage in five disjoint buckets, and what they cost."""

from __future__ import annotations

from typing import Any

import pytest

from agent_common.completions import cost_of
from agent_common.protocol import Pricing, Usage
from agent_host.proxy.calls.usage import priced_usage

PRICES = Pricing(input=3, output=15, cache_read=0.3, cache_write=3.75)


def buckets(usage: Usage) -> tuple[int, int, int, int, int]:
    return usage.input, usage.output, usage.reasoning, usage.cache_read, usage.cache_write


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({}, (0, 0, 0, 0, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 4}, (10, 4, 0, 0, 0)),
        (
            {
                "prompt_tokens": 100,
                "completion_tokens": 50,
                "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
                "completion_tokens_details": {"reasoning_tokens": 20},
            },
            (10, 30, 20, 60, 30),
        ),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 5}, (4, 0, 0, 5, 0)),
        ({"prompt_tokens": 9, "cache_creation_input_tokens": 2}, (7, 0, 0, 0, 2)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, (5, 0, 0, 9, 0)),
        ({"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 9}}, (0, 5, 9, 0, 0)),
        (
            {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}, "total_tokens": 13},
            (0, 9, 4, 0, 0),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 2, "cache_read_input_tokens": 4, "total_tokens": 15},
            (9, 2, 0, 4, 0),
        ),
        ({"input_tokens": 7, "output_tokens": 3, "cached_tokens": 2}, (5, 3, 0, 2, 0)),
        ({"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 530}, (20, 10, 500, 0, 0)),
        (
            {
                "prompt_tokens": 20,
                "completion_tokens": 10,
                "total_tokens": 530,
                "prompt_tokens_details": {"cached_tokens": 8},
            },
            (12, 10, 500, 8, 0),
        ),
        ({"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}, (20, 10, 0, 0, 0)),
        ({"completion_tokens": 10, "total_tokens": 30}, (0, 10, 0, 0, 0)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 3,
                "total_tokens": 15,
            },
            (2, 2, 0, 4, 3),
        ),
        ({"prompt_tokens": "12", "completion_tokens": -3, "prompt_tokens_details": None}, (0, 0, 0, 0, 0)),
        ({"prompt_tokens": True, "completion_tokens_details": []}, (0, 0, 0, 0, 0)),
        ({"prompt_tokens": 10**20, "completion_tokens": 2**40 + 1}, (2**40, 2**40, 0, 0, 0)),
        (
            {"prompt_cache_hit_tokens": 2**63, "completion_tokens_details": {"reasoning_tokens": 2**63}},
            (0, 0, 2**40, 2**40, 0),
        ),
    ],
)
def test_buckets(reported: dict[str, Any], expected: tuple[int, ...]) -> None:
    usage = priced_usage(reported, None)
    assert buckets(usage) == expected
    assert usage.cost_usd is None


def test_cost_counts_each_bucket_at_its_price() -> None:
    usage = Usage(input=1_000_000, output=100_000, reasoning=100_000, cache_read=1_000_000, cache_write=1_000_000)
    assert cost_of(usage, PRICES) == pytest.approx(3 + 1.5 + 1.5 + 0.3 + 3.75)


def test_unknown_cache_prices_are_those_of_input() -> None:
    usage = Usage(cache_read=1_000_000, cache_write=1_000_000)
    assert cost_of(usage, Pricing(input=2, output=8)) == pytest.approx(4)


def test_a_price_of_nothing_is_a_price() -> None:
    assert priced_usage({"prompt_tokens": 10}, Pricing(input=0, output=0)).cost_usd == 0.0
    assert cost_of(Usage(cache_read=1_000_000), Pricing(input=2, output=8, cache_read=0)) == 0.0
