"""Limits of rates and quotas: which it is, and how long it lasts."""

from __future__ import annotations

import pytest
from pydantic_core import to_json

from agent_common.completions import from_event, from_response


@pytest.mark.parametrize(
    ("said", "wait"),
    [
        ("Out of call volume quota. Quota will be replenished in 10:11:12.", 36_672),
        ("Out of bandwidth quota. Quota will be replenished in 1.10:11:12.", 123_072),
        ("Token quota is exceeded. Try again in 3600 seconds.", 3600),
        ("Your quota has been used up", None),
        ("The quota of this key is exhausted", None),
    ],
)
def test_a_403_about_a_quota_is_not_about_the_key(said: str, wait: float | None) -> None:
    error = from_response(403, {}, to_json({"statusCode": 403, "message": said}))
    assert (error.code, error.retry_after) == ("model_quota", wait)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("This key may not see the quota of its team", "model_auth"),
        ("The total token limit of this key is 8192", "model_auth"),
        ("You have no permission. Check your quota.", "model_auth"),
        ("Quota exceeded for quota metric 'requests' and limit 'requests per minute'", "model_rate_limited"),
    ],
)
def test_another_403_is_none_of_a_quota(said: str, code: str) -> None:
    assert from_response(403, {}, to_json({"error": {"message": said}})).code == code


@pytest.mark.parametrize(
    "error",
    [
        {"code": "1304", "message": "This API has reached its daily call limit"},
        {"code": "1304", "message": "no"},
        {"error_code": 17, "error_msg": "Open api daily request limit reached"},
        {"error_code": 19, "error_msg": "Open api total request limit reached"},
        {"message": "The daily free token quota of this model is used up"},
        {"message": "You have reached the daily usage cap"},
    ],
)
def test_a_limit_of_a_day_is_a_quota_in_any_words(error: dict[str, object]) -> None:
    assert from_event(error).code == "model_quota"
    assert from_response(429, {}, to_json({"error": error})).code == "model_quota"


def test_a_limit_of_a_second_is_none_of_a_day() -> None:
    error = from_event({"error_code": 18, "error_msg": "Open api qps request limit reached"})
    assert (error.code, error.transient) == ("model_rate_limited", True)


MINUTE, DAY = "x-ratelimit-{}-tokens-minute", "x-ratelimit-{}-requests-day"


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({MINUTE.format("reset"): "28.5", DAY.format("reset"): "40000"}, 28.5),
        ({MINUTE.format("reset"): "28.5", DAY.format("reset"): "40000", DAY.format("remaining"): "0"}, 40_000),
        (
            {
                MINUTE.format("reset"): "28.5",
                MINUTE.format("remaining"): "120",
                DAY.format("reset"): "40000",
                DAY.format("remaining"): "900",
            },
            28.5,
        ),
        ({DAY.format("reset"): "40000"}, 40_000),
        ({"ratelimit": '"default";r=0;t=30'}, 30),
        ({"ratelimit": '"minute";r=0;t=30, "day";r=5;t=40000'}, 30),
        ({"ratelimit": '"minute";r=5;t=30, "day";r=0;t=40000'}, 40_000),
        ({"ratelimit": "limit=100, remaining=0, reset=30"}, 30),
        ({"ratelimit": '"default";q=100;w=60'}, None),
        ({"ratelimitbysize-reset": "12"}, 12),
        ({"retry-after": "2", MINUTE.format("reset"): "28.5"}, 2),
    ],
)
def test_waits_in_headers(headers: dict[str, str], wait: float | None) -> None:
    assert from_response(429, headers, b"").retry_after == wait
