"""Limits of rates and quotas: which it is, and how long it lasts."""

from __future__ import annotations

import pytest
from pydantic_core import to_json

from agent_common.completions import from_event, from_response
from agent_host.proxy.providers.http import refuses_key


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


NEXT = "Your quota will be refreshed in the next cycle."
SPENT = "Authentication Error, ExceededTokenBudget: Current spend for token: 7.2e-05; Max Budget for Token: 2e-07"


@pytest.mark.parametrize(
    ("status", "kind", "said"),
    [
        (403, "access_terminated_error", f"You've reached your usage limit for this billing cycle. {NEXT}"),
        (403, "permission_error", f"You've reached your usage limit for this billing cycle. {NEXT}"),
        (403, "access_terminated_error", "You've reached your weekly (7-day) usage limit. It will reset then."),
        (403, "permission_error", "You have exceeded your usage limit"),
        (401, "auth_error", SPENT),
        (401, "auth_error", "ExceededBudget: User ann over budget"),
        (401, "new_api_error", "\u8be5\u4ee4\u724c\u989d\u5ea6\u5df2\u7528\u5c3d"),
    ],
)
def test_a_limit_of_a_plan_is_not_about_the_key(status: int, kind: str, said: str) -> None:
    body = to_json({"error": {"message": said, "type": kind, "code": status}})
    assert from_response(status, {}, body).code == "model_quota"
    assert not refuses_key(status, {}, body)


@pytest.mark.parametrize(
    "said",
    [
        "You've reached your concurrent request limit. Please wait for your ongoing requests to finish and try again.",
        "Too many concurrent requests",
        "Concurrency limit exceeded for user, please retry later",
    ],
)
def test_a_403_about_requests_at_the_same_time_passes(said: str) -> None:
    body = to_json({"error": {"message": said, "type": "permission_error"}})
    error = from_response(403, {}, body)
    assert (error.code, error.transient) == ("model_rate_limited", True)
    assert not refuses_key(403, {}, body)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("said", ["no", "This key may not see the usage limits of its team", "Invalid budget of a key"])
def test_a_refused_key_is_one(status: int, said: str) -> None:
    body = to_json({"error": {"message": said}})
    assert from_response(status, {}, body).code == "model_auth"
    assert refuses_key(status, {}, body)


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
        *(
            {"message": f"you (ann) have reached your {span} usage limit, upgrade for higher limits"}
            for span in ("hourly", "session", "weekly", "monthly")
        ),
        {"message": "You are using a Trial key, which is limited to 1000 API calls / month."},
        {"message": "You are past the per month request limit for this model, please wait and try again later."},
        {"message": "Your project has exceeded its monthly spending cap.", "status": "RESOURCE_EXHAUSTED"},
        {"message": "Weekly/Monthly Limit Exhausted."},
        {"message": "Usage limit reached for 5 hour."},
        *({"code": code, "message": "no"} for code in ("1308", "1309", "1310")),
    ],
)
def test_a_limit_of_a_day_is_a_quota_in_any_words(error: dict[str, object]) -> None:
    assert from_event(error).code == "model_quota"
    assert from_response(429, {}, to_json({"error": error})).code == "model_quota"


@pytest.mark.parametrize(
    "error",
    [
        {"message": "no", "type": "billing_not_active"},
        {"message": "Your account is not active, please check your billing details on our website."},
        {"message": "Your prepayment credits are depleted.", "status": "RESOURCE_EXHAUSTED"},
    ],
)
def test_an_account_that_is_not_in_use_has_no_quota(error: dict[str, object]) -> None:
    assert from_event(error).code == "model_quota"
    assert from_response(429, {}, to_json({"error": error})).code == "model_quota"


@pytest.mark.parametrize(
    "said",
    [
        "Rate limit reached for requests per minute",
        "You have exceeded your weekly rate limit",
        "The rate limit of this session was reached",
        "You are using a Trial key, which is limited to 40 API calls / minute.",
        "You exceeded your current quota, please check your plan and billing details. Please retry in 17s.",
    ],
)
def test_another_429_is_tried_again(said: str) -> None:
    assert from_response(429, {}, to_json({"error": {"message": said}})).transient


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
        ({"anthropic-ratelimit-unified-reset": "12000", "anthropic-ratelimit-tokens-reset": "12"}, 12),
        ({"anthropic-ratelimit-unified-reset": "12000"}, 12_000),
        ({"retry-after": "2", MINUTE.format("reset"): "28.5"}, 2),
    ],
)
def test_waits_in_headers(headers: dict[str, str], wait: float | None) -> None:
    assert from_response(429, headers, b"").retry_after == wait
