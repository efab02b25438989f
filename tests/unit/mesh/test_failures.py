"""What a failed call means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_core import to_json

from agent_common.completions import error_in, from_event, from_response, read_error_body, read_usage
from agent_common.protocol import Usage
from agent_runtime.errors import ModelError
from tests.unit.context.tokens.test_overflow import SAID


@pytest.mark.parametrize(
    ("status", "body", "code", "transient"),
    [
        *((status, b"", "model_unavailable", True) for status in (408, 409, 424, 425, 498, 500, 502, 503, 504, 529)),
        (504, b'{"error": {"code": "provider_timeout", "message": "silent"}}', "model_unavailable", False),
        (504, b'{"error": {"code": "context_deadline_exceeded"}}', "model_unavailable", True),
        (500, b'{"error": {"type": "context deadline exceeded"}}', "model_unavailable", True),
        (429, b"", "model_rate_limited", True),
        *((status, b"", "model_config", False) for status in (400, 404, 405, 415, 422)),
        (302, b"", "model_unavailable", False),
        (401, b'{"error": {"message": "bad key"}}', "model_auth", False),
        (502, b'{"error": {"code": "provider_auth"}}', "model_auth", False),
        (400, b'{"error": {"code": "context_length_exceeded"}}', "context_overflow", False),
        (400, b'{"message": "too many tokens"}', "context_overflow", False),
        (429, b'{"message": "Too many tokens, please wait"}', "model_rate_limited", True),
        (429, b'{"error": {"code": ["odd"], "message": "slow down"}}', "model_rate_limited", True),
        (429, b'{"error": {"code": "insufficient_quota"}}', "model_quota", False),
        (402, b"", "model_quota", False),
        (400, b'{"error": {"type": "billing_error", "message": "pay"}}', "model_quota", False),
        (400, b'{"error": {"message": "You have reached your specified API usage limits."}}', "model_quota", False),
        (404, b'{"error": {"message": "The model `x` does not exist.", "code": 404}}', "unknown_model", False),
        (400, b'{"error": {"message": "x is not a valid model ID"}}', "unknown_model", False),
        *(
            (404, b'{"error": {"message": "%s"}}' % said, "unknown_model", False)
            for said in (
                b"models/gemini-9 is not found for API version v1main, or is not supported for generateContent.",
                b"Not found the model kimi-x or Permission denied",
                b"Unable to access model x. Please visit https://a.example/models to see the models there are.",
                b"model: claude-9",
            )
        ),
        (404, b'{"error": {"message": "no such route"}}', "model_config", False),
        (404, b'{"error": {"message": "/v1/models/chat/completions is not found"}}', "model_config", False),
        (400, b'{"error": {"message": "this model does not support tools"}}', "model_config", False),
        *(
            (400, b'{"error": {"type": "%s", "message": "no luck"}}' % code, "model_unavailable", True)
            for code in (b"server_error", b"server_is_overloaded", b"overloaded_error", b"SERVICE_UNAVAILABLE")
        ),
        (400, b'{"error": {"type": "server_error", "code": "invalid_request_error"}}', "model_config", False),
        (400, b'{"error": {"type": "server_error", "message": "model x not found"}}', "unknown_model", False),
        (400, b'{"error": {"type": "server_error", "message": "out of credits"}}', "model_quota", False),
        (422, b'{"error": {"type": "server_error", "message": "no luck"}}', "model_config", False),
        (500, b"[1]", "model_unavailable", True),
        (500, b'{"error": null}', "model_unavailable", True),
        (500, b"\xff<html>", "model_unavailable", True),
    ],
)
def test_statuses(status: int, body: bytes, code: str, transient: bool) -> None:
    error = from_response(status, {}, body)
    assert (error.code, error.transient) == (code, transient)
    assert str(status) in error.message


def test_of_several_statuses_in_an_error_the_outer_one_counts() -> None:
    for status in range(400, 440):
        body = {"error": {"message": "no", "code": status, "error": {"message": "never", "code": str(status + 100)}}}
        assert read_error_body(to_json(body)).status == status


@pytest.mark.parametrize("text", [text for text, _, _ in SAID])
def test_a_prompt_that_is_too_long_is_told_in_many_ways(text: str) -> None:
    body = to_json({"error": {"message": text, "type": "invalid_request_error", "code": 400}})
    assert from_response(400, {}, body).code == "context_overflow"
    assert from_response(429, {}, body).code == "model_rate_limited"
    assert from_event({"message": text}).code == "context_overflow"


@pytest.mark.parametrize(
    "text",
    [
        "Total message token length exceed model limit (32768 tokens).",
        "Cannot truncate prompt with n_keep (5000) >= n_ctx (4096)",
        "AiError: Request too large",
        "Exceeded limit on max bytes to request body : 6291456",
        "Invalid request: number of tokens in messages exceeds model limit",
        "The prompt length 5000 exceeds max_input_len 4096",
        "prompt tokens exceeds limit, prompt tokens:9000 max:8192",
        "the length of messages is too long",
        "The messages have a total of 9000 tokens which exceeds the limit of 8192",
        "Prompt exceeds maximum length",
        "Input tokens + max new tokens must be <= 8192",
        "max_tokens must be at least 1, got -7584. (parameter=max_tokens, value=-7584)",
        "max_completion_tokens must be at least 1, got -12",
        "max_tokens must be greater than 0, but got -3.",
        "`max_new_tokens` should be positive. Given: -100",
        "Range of max_tokens should be [1, -7584]",
        "\u8f93\u5165\u957f\u5ea6\u8d85\u8fc7\u6a21\u578b\u6700\u5927\u957f\u5ea6",
    ],
)
def test_a_prompt_that_is_too_long_is_told_in_any_words(text: str) -> None:
    assert from_response(400, {}, to_json({"error": {"message": text}})).code == "context_overflow"
    assert from_event({"message": text}).code == "context_overflow"


@pytest.mark.parametrize(
    ("code", "param", "found"),
    [
        ("array_above_max_length", "messages", "context_overflow"),
        ("string_above_max_length", "messages[7].tool_calls[0].function.arguments", "context_overflow"),
        ("string_above_max_length", "input[4].output", "context_overflow"),
        ("string_above_max_length", "input", "context_overflow"),
        ("string_above_max_length", "instructions", "context_overflow"),
        ("string_above_max_length", "messages[1].content[0].text", "context_overflow"),
        ("string_above_max_length", "metadata.content", "model_config"),
        ("array_above_max_length", "tools", "model_config"),
        ("array_above_max_length", "stop", "model_config"),
        ("string_above_max_length", "messages[1].name", "model_config"),
        ("string_above_max_length", "messages[3].tool_calls[0].function.name", "model_config"),
        ("string_above_max_length", "messages[7].tool_call_id", "model_config"),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_what_is_too_long_is_told_by_its_place(code: str, param: str, found: str, named: bool) -> None:
    error = {"message": f"Invalid '{param}': too long.", "code": code, "param": param if named else None}
    assert from_response(400, {}, to_json({"error": error})).code == found


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 210000 tokens > 200000 maximum. For rate limits see https://a.example/rate-limits",
        "This model's maximum context length is 131072 tokens. Please reduce the length of the messages."
        " See docs.example.com/rate-limits.",
        "Input is too long for requested model; check your quota.",
        "Too many tokens in the prompt, see https://a.example/quota",
    ],
)
def test_a_page_about_rates_that_is_named_beside_a_prompt_that_is_too_long_changes_nothing(text: str) -> None:
    assert from_response(400, {}, to_json({"error": {"message": text}})).code == "context_overflow"
    assert from_event({"message": text}).code == "context_overflow"


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens is too large: 9000. This model supports at most 4096 completion tokens, whereas you provided 9000.",
        "`max_new_tokens` must be <= 512. Given: 1024",
        "Unsupported parameter: temperature",
        "temperature must be <= 2",
        "temperature: the model only supports up to 1000",
        "tools: must have less than 4096 items",
        "The output length limit of 4096 was exceeded",
        "max_tokens: Input should be less than or equal to 8192",
        "max_tokens must be at least 1, got 0",
        "max_tokens must be at least 1",
        "max_tokens must be in 1-8192, got 9000",
        "temperature must be at least 0, got -1. max_tokens is 50",
        "messages.0.content.1.image.source: image exceeds 5 MB maximum",
        "input image size is too large",
        "Exceeded limit on max bytes per data-uri item : 10485760",
        "Too many images in the messages: 1000 > 256 limit",
        "max_tokens exceeds the maximum: 9000",
        "Too many images in request: the messages have more than the maximum of 10 images",
        "The number of function declarations in the context exceeds the limit of 128",
    ],
)
def test_an_error_about_something_else_is_not_one_about_the_prompt(text: str) -> None:
    assert from_response(400, {}, to_json({"error": {"message": text}})).code == "model_config"


def test_the_providers_words_are_kept_but_not_endlessly() -> None:
    assert "bad key" in from_response(401, {}, b'{"error": {"message": "bad key"}}').message
    assert "wrong field" in from_response(422, {}, b'{"detail": "wrong field"}').message
    assert "no reason given" in from_response(500, {}, b" ").message
    assert len(from_response(500, {}, b'"' + b"x" * 10_000 + b'"').message) < 600


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), ("0.5", 0.5), ("-3", 0), ("nan", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0)],
)
def test_retry_after(header: str, seconds: float) -> None:
    assert from_response(429, {"retry-after": header}, b"").retry_after == seconds


@pytest.mark.parametrize("zone", [" GMT", " -0000", ""])
def test_retry_after_as_a_date(zone: str) -> None:
    soon = datetime.now(tz=UTC) + timedelta(seconds=40)
    header = soon.strftime("%a, %d %b %Y %H:%M:%S") + zone
    wait = from_response(429, {"retry-after": header}, b"").retry_after
    assert wait is not None
    assert 30 < wait <= 40


@pytest.mark.parametrize("header", [None, "", "soon", "Wed, 99 Foo 2015"])
def test_a_retry_after_that_says_nothing(header: str | None) -> None:
    assert from_response(429, {"retry-after": header} if header is not None else {}, b"").retry_after is None


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ({"error": "Model mistralai/Mistral-7B-Instruct-v0.2 is currently loading", "estimated_time": 20.5}, 20.5),
        ({"error": {"message": "Loading model", "code": 503}}, None),
        ({"error": "Model is initializing"}, None),
        ({"error": "The model m is being downloaded, try again later"}, None),
        ({"detail": "Model is being loaded"}, None),
        ({"error": "model is starting up"}, None),
        ({"error": {"message": "Model is not ready yet"}}, None),
        ({"error": "Model is not ready, it is still building or deploying"}, None),
        ({"message": "The endpoint is scaling from zero, please retry"}, None),
        (
            {
                "error": {
                    "message": "Deployment is currently scaled to zero and is scaling up. Please retry your request"
                    " in a few minutes.",
                    "code": "DEPLOYMENT_SCALING_UP",
                    "type": "error",
                }
            },
            None,
        ),
        ({"error": {"message": "Please retry", "code": "DEPLOYMENT_SCALING_UP"}}, None),
        ({"error": "Waiting for model to load"}, None),
        ({"message": "Model not loaded yet"}, None),
        ({"error": {"message": "Service unavailable", "code": "model_not_ready"}}, None),
        ({"error": {"message": "Service unavailable", "type": "MODEL_LOADING"}}, None),
    ],
)
def test_a_model_that_is_being_loaded(body: dict[str, object], seconds: float | None) -> None:
    error = from_response(503, {}, to_json(body))
    assert (error.loading, error.retry_after) == (True, seconds)


@pytest.mark.parametrize(
    ("said", "loading"),
    [
        ("Model is loading", True),
        ("Model unloaded.", True),
        ("Model was unloaded while the request was still in queue.", True),
        ("Model not loaded yet", True),
        ("The model is not ready yet", True),
        ("model is loaded with 4096 tokens", False),
        ("Model m is not loaded. Load it first.", False),
    ],
)
def test_a_model_that_is_being_loaded_may_be_told_as_a_fault_of_the_request(said: str, loading: bool) -> None:
    assert from_response(400, {}, to_json({"error": {"message": said}})).loading is loading


@pytest.mark.parametrize("said", ["the model is overloaded", "We are scaling up our capacity", "upload your model"])
def test_a_model_that_is_overloaded_is_not_being_loaded(said: str) -> None:
    assert not from_response(503, {}, to_json({"error": said})).loading


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("no such route", True),
        ("No endpoints found that support tool use.", False),
        ("No allowed providers are available for the selected model.", False),
        ("Item with id 'rs_1' not found. Items are not persisted when store is false.", False),
        ("This is not a chat model and thus not supported in the v1/chat/completions endpoint.", False),
        ("This model is only supported in v1/responses and not in v1/chat/completions.", False),
        ("Model use case details have not been submitted for this account.", False),
    ],
)
def test_a_wrong_base_url_is_suspected_only_where_it_may_be_the_cause(text: str, hint: bool) -> None:
    error = from_response(404, {}, to_json({"error": {"message": text}}))
    assert (error.code, "base URL" in error.message) == ("model_config", hint)


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("This model is only supported in v1/responses and not in v1/chat/completions.", True),
        ("The model is only available in the v1/responses endpoint", True),
        ("Please use the Responses API for this model", True),
        ("Item with id 'rs_1' not found. See v1/responses.", False),
    ],
)
def test_a_model_of_the_responses_api_is_told_with_the_line_for_the_catalog(text: str, status: int, hint: bool) -> None:
    error = from_response(status, {}, to_json({"error": {"message": text, "type": "invalid_request_error"}}))
    assert (error.code, "api: responses" in error.message) == ("model_config", hint)


def test_an_error_is_what_it_is() -> None:
    assert isinstance(from_event({}), ModelError)
    assert "out of memory" in from_event({"message": "out of memory"}).message


def test_odd_usage_is_never_negative() -> None:
    report = {"prompt_tokens": 5, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 9},
              "completion_tokens_details": {"reasoning_tokens": 8}, "cost_usd": float("nan")}  # fmt: skip
    assert read_usage(report) == Usage(input=5, output=3, reasoning=8, cache_read=9)
    assert read_usage({"prompt_tokens": 100.0, "completion_tokens": 2.5}) == Usage(input=100)
    assert read_usage({"prompt_tokens": "5", "cache_creation_input_tokens": -1}) == Usage()
    assert read_usage({"prompt_tokens": 10, "cache_creation_input_tokens": 4}) == Usage(input=6, cache_write=4)


@pytest.mark.parametrize("told", ["inf", "1e999", "-inf"])
def test_a_time_to_wait_that_is_no_time_is_none(told: str) -> None:
    assert from_response(429, {"retry-after": told}, b"").retry_after is None


RAW = '{"error": {"message": "This model\'s maximum context length is 65536 tokens. However, you requested 70212."}}'


def told(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


def too_long(param: str) -> dict[str, object]:
    return told("string too long", param=param, code="string_above_max_length")


NO_CREDITS = "Your newly created team doesn't have any credits or licenses yet."
ALL_CREDITS = "Your team has either used all available credits or reached its monthly spending limit."


@pytest.mark.parametrize(
    ("status", "body", "code", "transient"),
    [
        *((status, b"<html>gateway</html>", "model_unavailable", True) for status in (*range(520, 526), 527)),
        *((status, b"", "model_unavailable", False) for status in (501, 505)),
        (400, told("Provider returned error", code=400, metadata={"raw": RAW}), "context_overflow", False),
        (400, too_long("messages[3].content"), "context_overflow", False),
        (413, told("Request body too large for m. Max size: 8000 tokens.", code="tokens"), "context_overflow", False),
        (400, told("Total tokens of image and text exceed max message tokens."), "context_overflow", False),
        (400, told("Prompt \u8d85\u957f", code="1261"), "context_overflow", False),
        (400, told("Prompt \u8d85\u957f"), "context_overflow", False),
        (400, told("no", code="model_max_prompt_tokens_exceeded"), "context_overflow", False),
        (400, told("no", type="ContextWindowExceededError"), "context_overflow", False),
        (400, told("litellm.ContextWindowExceededError: the prompt does not fit"), "context_overflow", False),
        (400, told("no", code="prompt_too_long"), "context_overflow", False),
        (400, told("no", type="exceed_context_size_error"), "context_overflow", False),
        (400, told("Input tokens exceed the configured limit"), "context_overflow", False),
        (400, told("prompt tokens too long"), "context_overflow", False),
        (400, told("Please reduce the length of the messages or completion."), "context_overflow", False),
        (400, told("Too many tokens, please wait before trying again."), "model_rate_limited", True),
        (400, told("Too many tokens per minute"), "model_rate_limited", True),
        (400, told("Too many tokens per day, please wait before trying again."), "model_quota", False),
        (400, told("The prompt is too long for your quota of tokens per minute"), "model_config", False),
        (400, told("Quota of input tokens: you exceeded the limit of 9000, requested 9500."), "model_config", False),
        (413, told("Rate limit reached, see https://a.example/b"), "model_rate_limited", True),
        (400, too_long("tools[1].function.name"), "model_config", False),
        (400, too_long("messages[2].tool_calls[0].id"), "model_config", False),
        (413, told("Request too large: tokens per minute (TPM): Limit 6000, got 8000"), "model_rate_limited", True),
        (400, told("Failed to call a function.", code="tool_use_failed"), "model_unavailable", True),
        (400, told("Failed to parse tool call arguments as JSON"), "model_unavailable", True),
        (400, told("Failed to generate tool_calls. Please adjust your prompt."), "model_unavailable", True),
        (400, told("Tool call was generated incorrectly"), "model_unavailable", True),
        (403, told("Your input was flagged", metadata={"reasons": ["violence"]}), "content_refused", False),
        (400, told("The response was filtered", code="content_filter"), "content_refused", False),
        (400, {"code": "data_inspection_failed", "message": "inappropriate"}, "content_refused", False),
        (
            403,
            {"code": "no", "error": "Content violates usage guidelines. Check: BIO"},
            "content_refused",
            False,
        ),
        (400, told("Content Exists Risk", type="invalid_request_error"), "content_refused", False),
        (
            400,
            told("We limit access to this content for safety reasons"),
            "content_refused",
            False,
        ),
        (400, told("no", code="InputTextSensitiveContentDetected"), "content_refused", False),
        (400, told("the input text may contain sensitive information"), "content_refused", False),
        (451, told("no", type="censorship_blocked"), "content_refused", False),
        (400, told("no", code="censorship_blocked"), "content_refused", False),
        (451, b"", "content_refused", False),
        (400, told("no", code="cyber_policy_violation"), "content_refused", False),
        *(
            (status, told("This request is not allowed.", code=code), "content_refused", False)
            for code in ("cyber_policy", "bio_policy", "cyber_policy_violation")
            for status in (400, 403, 429, 500, 502)
        ),
        (400, told("no", code="image_content_policy_violation"), "content_refused", False),
        (400, told("This request has been flagged for potentially high-risk activity."), "content_refused", False),
        (400, told("The prompt has been flagged"), "content_refused", False),
        (403, told("Your account has been flagged"), "model_auth", False),
        (502, told("no", code="content_filter"), "model_unavailable", True),
        (400, told("The prompt was blocked by safety settings"), "content_refused", False),
        (400, told("may be harmful content"), "content_refused", False),
        (403, told("Request blocked by guardrail"), "content_refused", False),
        (400, told("Violated guardrail policy"), "content_refused", False),
        (400, told("The guardrail identifier or version provided does not exist"), "model_config", False),
        (404, told("No endpoints available matching your guardrail restrictions"), "model_config", False),
        (400, told("Unknown name 'safety settings'"), "model_config", False),
        (401, told("Never share sensitive information such as a key"), "model_auth", False),
        (401, told("Incorrect API key. See our usage guidelines."), "model_auth", False),
        (402, told("No credits. See our usage policies."), "model_quota", False),
        (429, told("Rate limit reached. Read our usage guidelines at https://a.example"), "model_rate_limited", True),
        (400, told("Read our usage policy", type="rate_limit_error"), "model_rate_limited", True),
        (429, told("Too many requests", code="content_filter"), "content_refused", False),
        (403, told("Key limit exceeded (weekly limit). Manage it in the settings"), "model_quota", False),
        (403, {"code": "AllocationQuota.FreeTierOnly", "message": "no"}, "model_quota", False),
        (403, {"message": "The free tier of the model has been exhausted."}, "model_quota", False),
        (429, told("no", code="1113"), "model_quota", False),
        (403, {"code": "INSUFFICIENT_BALANCE", "message": "Insufficient account balance"}, "model_quota", False),
        (403, {"code": "INSUFFICIENT_BALANCE", "message": "no"}, "model_quota", False),
        (403, {"code": 30001, "message": "Sorry, your account balance is insufficient"}, "model_quota", False),
        (403, {"reason": "NOT_ENOUGH_BALANCE", "message": "not enough balance"}, "model_quota", False),
        (403, told("user quota is not enough", code="insufficient_user_quota"), "model_quota", False),
        (403, told("\u7528\u6237\u989d\u5ea6\u4e0d\u8db3", code="insufficient_user_quota"), "model_quota", False),
        (403, told("token quota is not enough", code="pre_consume_token_quota_failed"), "model_quota", False),
        (403, told("The balance of this key is not shown"), "model_auth", False),
        (403, told("Country, region, or territory not supported"), "model_config", False),
        (403, told("no", code="unsupported_country_region_territory"), "model_config", False),
        (403, told("The model is not available in your region.", type="permission_error"), "model_config", False),
        (400, told("User location is not supported for the API use."), "model_config", False),
        (403, b"error code: 1010", "model_config", False),
        (403, b"<!DOCTYPE html><title>Attention Required! | Cloudflare</title>", "model_config", False),
        (403, b"<html><h1>Sorry, you have been blocked</h1>", "model_config", False),
        (403, b"<!DOCTYPE html><title>Just a moment...</title>", "model_config", False),
        (403, told("Access denied. Please check your network settings."), "model_config", False),
        (403, told("Access denied"), "model_auth", False),
        (401, b"error code: 1010", "model_auth", False),
        *(
            (status, told(f"The model 'x' has {words}"), "unknown_model", False)
            for status in (400, 404, 410)
            for words in ("reached its end of life on 2026-05-01", "reached end-of-life", "been retired")
        ),
        (410, b"gone", "model_config", False),
        (403, told("Access denied due to Virtual Network/Firewall rules."), "model_config", False),
        (403, told("You have exceeded your rate limit"), "model_rate_limited", True),
        (403, told("This key may not be used. See https://a.example/rate-limits"), "model_auth", False),
        (403, told("no access to this model"), "model_auth", False),
        (
            400,
            [told("API key not valid.", status="INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}])],
            "model_auth",
            False,
        ),
        (400, [told("no", status="INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}])], "model_auth", False),
        (400, told("API key expired. Please renew the API key.", code=400), "model_auth", False),
        (400, [told("Missing or invalid Authorization header.", status="INVALID_ARGUMENT")], "model_auth", False),
        (400, {"code": "no", "error": "Incorrect API key provided: xa***yz."}, "model_auth", False),
        (400, told("Unknown parameter: 'api_key'."), "model_config", False),
        (403, told("Project `p` does not have access to model `m`", code="model_not_found"), "unknown_model", False),
        (403, {"code": "The caller does not have permission", "error": NO_CREDITS}, "model_quota", False),
        (429, told("please check your balance", type="exceeded_current_quota_error"), "model_quota", False),
        (429, {"code": "Some resource has been exhausted", "error": ALL_CREDITS}, "model_quota", False),
        (400, told("ThrottlingException: Too many tokens, please wait."), "model_rate_limited", True),
        (429, [told("Quota", details=[{"violations": [{"quotaId": "RequestsPerDayFree"}]}])], "model_quota", False),
        (429, told("Rate limit reached. Please try again in 1m2s."), "model_rate_limited", True),
        (400, told("the engine is currently overloaded, try again later"), "model_unavailable", True),
        (401, told("Authorization Token invalid", code="1002"), "model_auth", False),
        (400, told("The model `m` has been decommissioned."), "unknown_model", False),
        (404, told("The API deployment for this resource does not exist."), "unknown_model", False),
        (400, told('unexpected tokens remaining in message header: Some("x")'), "model_unavailable", True),
        (429, told("You have exceeded the monthly usage quota."), "model_quota", False),
        (429, told("you have used up your daily free allocation of 10,000 neurons"), "model_quota", False),
        (400, told("Budget has been exceeded! Current cost: 1.0", type="budget_exceeded"), "model_quota", False),
        (401, told("\u8be5\u4ee4\u724c\u989d\u5ea6\u5df2\u7528\u5c3d"), "model_quota", False),
        (400, told("result security check fail"), "content_refused", False),
        (400, told("This prompt contains sensitive words that violate our practices."), "content_refused", False),
        (400, told("\u8f93\u5165\u5185\u5bb9\u5305\u542b\u654f\u611f\u4fe1\u606f"), "content_refused", False),
    ],
)
def test_an_error_is_told_by_all_that_it_says(status: int, body: object, code: str, transient: bool) -> None:
    error = from_response(status, {}, body if isinstance(body, bytes) else to_json(body))
    assert (error.code, error.transient) == (code, transient), error.message


@pytest.mark.parametrize(
    ("error", "code", "transient"),
    [
        ({"code": 400, "message": "bad"}, "model_config", False),
        ({"code": 401, "message": "bad"}, "model_auth", False),
        ({"code": 402, "message": "This request requires more credits"}, "model_quota", False),
        ({"code": "413", "message": "too large"}, "context_overflow", False),
        ({"code": 429, "message": "slow down"}, "model_rate_limited", True),
        ({"code": 502, "message": "upstream"}, "model_unavailable", True),
        ({"type": "invalid_request_error", "message": "bad"}, "model_config", False),
        ({"code": "InvalidParameter", "message": "bad"}, "model_config", False),
        *(({"code": code, "message": "no"}, "model_config", False) for code in ("invalid_prompt", "invalid_image_url")),
        *(
            ({"code": code, "message": "no"}, "model_config", False)
            for code in ("unsupported_value", "image_too_small")
        ),
        ({"code": "failed_to_download_image", "message": "no"}, "model_unavailable", True),
        ({"code": "bio_policy", "message": "no"}, "content_refused", False),
        ({"type": "overloaded_error", "message": "Overloaded"}, "model_unavailable", True),
        ({"base_resp": {"status_code": 1002, "status_msg": "rate limit"}}, "model_rate_limited", True),
        ({"base_resp": {"status_code": 1039, "status_msg": "token limit per minute"}}, "model_rate_limited", True),
        ({"base_resp": {"status_code": 1004, "status_msg": "login fail"}}, "model_auth", False),
        ({"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, "model_quota", False),
        ({"base_resp": {"status_code": 2056, "status_msg": "usage limit exceeded"}}, "model_quota", False),
        ({"base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}}, "content_refused", False),
        ({"base_resp": {"status_code": 1027, "status_msg": "output new_sensitive"}}, "content_refused", False),
        ({"base_resp": {"status_code": 1041, "status_msg": "conn limit"}}, "model_rate_limited", True),
        ({"base_resp": {"status_code": 2013, "status_msg": "invalid params"}}, "model_config", False),
        ({"base_resp": {"status_code": 2013, "status_msg": "context window exceeds limit"}}, "context_overflow", False),
        ({"base_resp": {"status_code": 1024, "status_msg": "internal error"}}, "model_unavailable", True),
        ({"type": "throttlingException", "message": "Too many tokens, please wait."}, "model_rate_limited", True),
        ({"message": "Too many tokens, please wait before trying again."}, "model_rate_limited", True),
        ({"message": "Too many tokens per day, please wait before trying again."}, "model_quota", False),
        ({"type": "permission_error", "message": "no permission for this"}, "model_auth", False),
        ({"status": "PERMISSION_DENIED", "message": "no"}, "model_auth", False),
        ({"type": "invalid_authentication_error", "message": "Invalid Authentication"}, "model_auth", False),
        ({"code": "InvalidApiKey", "message": "Invalid API-key provided."}, "model_auth", False),
        ({"message": "Incorrect API key provided"}, "model_auth", False),
        ({"type": "not_found_error", "message": "model: claude-9"}, "unknown_model", False),
        ({"type": "not_found_error", "message": "The model `x` does not exist."}, "unknown_model", False),
        ({"message": "The model 'a/b' was not found"}, "unknown_model", False),
        ({"message": "no such model: x"}, "unknown_model", False),
        ({"message": "the model called a tool that does not exist"}, "model_unavailable", True),
        ({"message": "Model instance was interrupted: worker not found"}, "model_unavailable", True),
        ({"message": "invalid model response"}, "model_unavailable", True),
        ({"message": "no model is loaded"}, "model_unavailable", True),
        ({"code": 404, "message": "no model x"}, "unknown_model", False),
        ({"errorMessage": "Task timed out after 30 seconds"}, "model_unavailable", True),
        ({"code": "provider_timeout", "message": "silent"}, "model_unavailable", True),
        ("engine dead", "model_unavailable", True),
    ],
)
def test_an_error_with_status_200_means_what_it_would_with_its_own(error: object, code: str, transient: bool) -> None:
    found = from_event(error)
    assert (found.code, found.transient) == (code, transient), found.message


@pytest.mark.parametrize(
    ("event", "code", "transient"),
    [
        ({"error": True, "message": "Invalid key", "code": 401}, "model_auth", False),
        ({"choices": [{"finish_reason": "stop"}], "base_resp": {"status_code": 1027}}, "content_refused", False),
        ({"status": "449", "msg": "You exceeded your current rate limit"}, "model_rate_limited", True),
        ({"error": {"statusCode": 401, "message": "no"}}, "model_auth", False),
        ({"http_code": 429, "message": "no"}, "model_rate_limited", True),
        ({"code": 20012, "message": "Model does not exist. Please check it."}, "unknown_model", False),
        ({"code": "AccessDenied.Unpurchased", "message": "no"}, "model_config", False),
        ({"choices": [{"delta": {}}], "x_groq": {"error": "over capacity"}}, "model_unavailable", True),
        ({"choices": [{"delta": {"error": {"message": "m", "code": 401}}}]}, "model_auth", False),
        (
            {"choices": [{"message": {"content": None, "error": {"message": "m", "code": 429}}}]},
            "model_rate_limited",
            True,
        ),
        ({"choices": [{"delta": {}}, {"error": {"message": "m", "code": 400}}]}, "model_config", False),
        ({"choices": [], "message": "bad", "status": 400}, "model_config", False),
        (
            {"choices": None, "error_msg": "failed", "error_code": 1, "usage": {"total_tokens": 0}},
            "model_unavailable",
            True,
        ),
        ({"detail": [{"loc": ["body", "x"], "msg": "bad", "type": "v"}]}, "model_unavailable", True),
        ({"throttlingException": {"message": "Too many requests"}}, "model_rate_limited", True),
        ({"Error": {"Code": "x", "Message": "m"}}, "model_unavailable", True),
        ({"fault": {"faultstring": "Rate limit quota violation."}}, "model_rate_limited", True),
        ({"error": {"message": "m", "http_status": 429}}, "model_rate_limited", True),
        ({"error": {"message": "m", "code": "rate_limited"}}, "model_rate_limited", True),
        ({"error": {"message": "m", "code": "1302"}}, "model_rate_limited", True),
    ],
)
def test_an_error_stands_in_many_places(event: dict[str, Any], code: str, transient: bool) -> None:
    found = from_event(error_in(event))
    assert (found.code, found.transient) == (code, transient), found.message


@pytest.mark.parametrize(
    "member", ["message", "detail", "msg", "error_msg", "error_message", "errorMessage", "Message"]
)
def test_an_answer_that_only_says_what_went_wrong_is_an_error(member: str) -> None:
    found = error_in({member: "Task timed out after 30 seconds", "requestId": "r"})
    assert "Task timed out" in from_event(found).message
    assert error_in({member: "", "choices": []}) is None


@pytest.mark.parametrize(
    "event",
    [
        {"code": 0, "message": "Success", "sid": "x", "choices": [], "usage": {"total_tokens": 3}},
        {"code": 200, "msg": "ok", "choices": []},
        {"code": "0", "message": "Success"},
        {"status": "success", "message": "done"},
        {"message": "ok", "success": True},
    ],
)
def test_an_envelope_that_says_that_all_is_well_is_no_error(event: dict[str, Any]) -> None:
    assert error_in(event) is None


@pytest.mark.parametrize(
    "event",
    [
        {"code": 10013, "message": "the input is refused"},
        {"code": 0, "status": 500, "message": "failed"},
        {"code": None, "message": "failed"},
        {"status": False, "message": "failed"},
        {"success": False, "message": "failed"},
        {"success": True, "error": {"message": "failed"}},
        {"message": "failed"},
    ],
)
def test_any_other_envelope_of_words_is_one(event: dict[str, Any]) -> None:
    assert error_in(event) is not None


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after-ms": "1500"}, {}, 1.5),
        ({}, [{"error": {"code": 429, "message": "m", "details": [{"retryDelay": "17.42s"}]}}], 17.42),
        ({}, {"error": {"message": "m", "metadata": {"headers": {"Retry-After": "9"}}}}, 9),
        ({}, {"error": {"message": "m", "retry_after": 4}}, 4),
        ({}, {"error": {"message": "Please try again in 6m0s."}}, 360),
        ({}, {"error": {"message": "Please retry in 17.42s."}}, 17.42),
        ({}, {"error": {"message": "Try again after 250ms"}}, 0.25),
        ({}, {"error": {"message": "Retry after 30 seconds"}}, 30),
        ({}, {"error": {"message": "Please retry after 1 second."}}, 1),
        ({}, {"error": {"message": "Please try again in 1 minute."}}, 60),
        ({}, {"error": {"message": "try again in 2 mins"}}, 120),
        ({}, {"error": {"message": "wait 1 hr"}}, 3600),
        ({}, {"error": {"message": "Please try again in 1h2m3s."}}, 3723),
        ({}, {"error": {"message": "Please try again in 1m2.5s. Limit 5"}}, 62.5),
        ({}, {"error": {"message": "try again in 5 months"}}, None),
        ({}, {"error": {"message": "m", "retryAfter": 12}}, 12),
        ({}, {"error": {"message": "m", "retry-after": "8"}}, 8),
        ({}, {"error": {"message": "m", "retry_after": "30 seconds"}}, 30),
        ({}, {"error": {"message": "m", "retryAfterMs": 2500}}, 2.5),
        ({}, {"error": {"message": "m", "resets_in_seconds": 40}}, 40),
        ({}, {"error": {"message": "m", "retry_after": "soon"}}, None),
        ({}, {"error": {"message": "Rate limit exceeded, retry_after: 30"}}, 30),
        ({}, {"error": {"message": "Rate limit exceeded, retry_after: 30 s"}}, 30),
        ({}, {"error": {"message": "Rate limit exceeded, retry after 5 months"}}, None),
        ({}, {"error": {"message": "Rate limit exceeded, retry after 50 months"}}, None),
        ({}, {"error": {"message": "Rate limit exceeded. Retry after 30."}}, 30),
        ({}, {"error": {"message": 'said {"retry_after": 2.5}'}}, 2.5),
        ({}, {"error": {"message": "Retry after 2026-13-45T99:00:00Z."}}, None),
        ({}, {"error": {"message": "Retry after 2016-11-28."}}, 0),
        ({"x-ratelimit-reset": "12"}, {}, 12),
        ({"ratelimit-reset": "12"}, {}, 12),
        ({"x-ratelimit-reset": "0"}, {}, 0),
        ({"x-ratelimit-reset": "soon"}, {}, None),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-reset-requests": "1s"}, {}, 360),
        ({"retry-after": "2"}, {"error": {"message": "try again in 9s"}}, 2),
        ({}, {"error": {"message": "slow down"}}, None),
        ({"retry-after": "7s"}, {}, 7),
        ({"x-retry-after": "7"}, {}, 7),
        ({"x-ms-retry-after-ms": "1500"}, {}, 1.5),
        (
            {
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-requests": "10",
                "x-ratelimit-reset-tokens": "7.66s",
                "x-ratelimit-remaining-tokens": "0",
            },
            {},
            7.66,
        ),
        ({}, {"error": {"message": "Please try again in a minute"}}, 60),
        ({}, {"error": {"message": "Next request allowed in 5 seconds"}}, 5),
        ({}, {"error": {"message": "Your quota will reset after 22s."}}, 22),
        ({}, {"error": {"message": "try again at 2016-11-28T10:00:00Z"}}, 0),
        ({}, {"error": {"message": "\u8bf7\u5728 5 \u79d2\u540e\u91cd\u8bd5"}}, 5),
        ({}, {"error": {"message": "\u8bf7 2 \u5206\u949f\u540e\u91cd\u8bd5"}}, 120),
        ({}, {"error": {"message": "m", "details": [{"retryDelay": {"seconds": 17, "nanos": 420_000_000}}]}}, 17.42),
        ({}, {"error": {"message": "m", "details": [{"metadata": {"quotaResetDelay": "500ms"}}]}}, 0.5),
        ({}, {"error": {"message": "Provider returned error", "metadata": {"raw": "limited, try again in 8s"}}}, 8),
        ({}, {"error": {"message": "m"}, "parameters": {"retry_after": 12}}, 12),
        ({}, {"error": {"message": "the connection was reset after 30s"}}, None),
        ({}, {"error": {"message": "Your limit will be reset in 12 seconds"}}, 12),
        ({}, {"error": {"message": "try again in 1 minute and 30 seconds"}}, 90),
        ({}, {"error": {"message": "try again in 1 hour, 2 minutes and 3 seconds."}}, 3723),
        ({}, {"error": {"message": "Try again in 3 days 4 hours"}}, 273_600),
        ({}, {"error": {"message": "Try again in 1d2h"}}, 93_600),
        ({}, {"error": {"message": "try again in 2 days"}}, 172_800),
        ({}, {"error": {"message": "Please try again after 00:05:00"}}, 300),
        ({}, {"error": {"message": "try again in 5 dozen years"}}, None),
        ({}, {"error": {"message": "Rate limited. Retry after 00:05:00"}}, 300),
        ({}, {"error": {"message": "Try again after 10:30:00 UTC"}}, None),
        ({"retry-after": "1d2h"}, {}, 93_600),
        ({"retry-after": "12, 12"}, {}, 12),
        ({"retry-after": "12, 30"}, {}, 30),
        ({"retry-after": "soon, 30"}, {}, None),
        ({"anthropic-ratelimit-unified-reset": "12"}, {}, 12),
    ],
)
def test_how_long_to_wait_may_stand_anywhere(headers: dict[str, str], body: object, seconds: float | None) -> None:
    assert from_response(429, headers, to_json(body)).retry_after == pytest.approx(seconds)


def test_when_to_try_again_may_be_a_moment() -> None:
    moment = datetime.now(tz=UTC) + timedelta(seconds=40)
    seconds = str(int(moment.timestamp()))
    headers = {
        "x-ratelimit-reset": seconds,
        "ratelimit-reset": f"{seconds}000",
        "x-ratelimit-reset-requests": seconds,
        "anthropic-ratelimit-requests-reset": moment.isoformat().replace("+00:00", "Z"),
        "anthropic-ratelimit-input-tokens-reset": moment.isoformat(),
    }
    waits = [from_response(429, {name: value}, b"").retry_after for name, value in headers.items()]
    inner = {"headers": {"X-RateLimit-Reset": seconds}}
    bodies = ({"resets_at": int(seconds)}, {"resets_at": moment.isoformat()}, inner)
    bodies += ({"retry_after": int(seconds)}, {"retry_after": moment.isoformat()}, {"retry_after_ms": f"{seconds}000"})
    waits += [from_response(429, {}, to_json({"error": {"message": "m", **body}})).retry_after for body in bodies]
    headers = {"retry-after": seconds, "retry-after-ms": f"{seconds}000"}
    waits += [from_response(429, {name: value}, b"").retry_after for name, value in headers.items()]
    texts = (
        seconds,
        f"{seconds}000",
        f"{moment:%Y-%m-%dT%H:%M:%SZ}",
        moment.isoformat(),
        f"{moment:%Y-%m-%d %H:%M:%S}",
    )
    messages = [f"Rate limit exceeded, {word}{text}." for text in texts for word in ("retry after ", "retry_after: ")]
    waits += [from_response(429, {}, to_json({"error": {"message": message}})).retry_after for message in messages]
    assert all(wait is not None and 30 < wait <= 40 for wait in waits), waits
    past = from_response(429, {"x-ratelimit-reset": "1600000000"}, b"")
    assert past.retry_after == 0
