"""Usage as Anthropic's and the Responses API report it, in OpenAI's shape."""

from __future__ import annotations

from typing import Any

import pytest

from agent_common.completions import read_usage
from agent_common.protocol import Usage
from agent_host.proxy.providers.anthropic.usage import openai_usage as of_anthropic
from agent_host.proxy.providers.responses.usage import openai_usage as of_responses


@pytest.mark.parametrize(
    "report",
    [
        {"input_tokens": 30, "output_tokens": 5, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100},
        {"input_tokens": 30.0, "output_tokens": 5.0, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 1e2},
        {
            "input_tokens": 30,
            "output_tokens": 5,
            "cache_creation": {"ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 5.0, "odd": "x"},
            "cache_read_input_tokens": 100,
        },
    ],
)
def test_counts_of_anthropic_stand_beside_each_other(report: dict[str, Any]) -> None:
    found = of_anthropic(report)
    assert (found["prompt_tokens"], found["total_tokens"]) == (150, 155)
    assert read_usage(found) == Usage(input=30, output=5, cache_read=100, cache_write=20)


@pytest.mark.parametrize(
    "report",
    [
        {
            "input_tokens": 150,
            "output_tokens": 12,
            "total_tokens": 162,
            "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20},
            "output_tokens_details": {"reasoning_tokens": 7},
        },
        {
            "input_tokens": 150.0,
            "output_tokens": 12.0,
            "input_tokens_details": {"cached_tokens": 100.0, "cache_creation_input_tokens": 20},
            "output_tokens_details": {"reasoning_tokens": 7.0},
        },
        {
            "prompt_tokens": 150,
            "completion_tokens": 12,
            "total_tokens": 162,
            "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 20},
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
    ],
)
def test_counts_of_the_responses_api_contain_each_other(report: dict[str, Any]) -> None:
    found = of_responses(report)
    assert (found["prompt_tokens"], found["completion_tokens"], found["total_tokens"]) == (150, 12, 162)
    assert read_usage(found) == Usage(input=30, output=5, reasoning=7, cache_read=100, cache_write=20)


@pytest.mark.parametrize("report", [{}, {"input_tokens": "30"}, {"input_tokens": 2.5}, {"input_tokens": -1}])
def test_what_is_no_count_counts_nothing(report: dict[str, Any]) -> None:
    assert of_anthropic(report)["total_tokens"] == of_responses(report)["total_tokens"] == 0
