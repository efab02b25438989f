"""Errors that a gateway has wrapped, and errors with values of an unexpected kind."""

from __future__ import annotations

import json

import pytest
from pydantic_core import to_json

from agent_common.completions import from_event, from_response


def told(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


def repr_of(value: object) -> str:
    return repr(value)[:20]


TOO_LONG = "This model's maximum context length is 65536 tokens. However, your request has 70212 input tokens."
CODED = json.dumps({"error": {"message": TOO_LONG, "code": 400}})


def wrapped(raw: object, status: int = 400) -> dict[str, object]:
    return told("Provider returned error", code=status, metadata={"raw": raw, "provider_name": "X"})


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (TOO_LONG, "context_overflow"),
        (f"[{CODED}]", "context_overflow"),
        (f"HTTP 400 [400]: {CODED} (request r1)", "context_overflow"),
        (json.dumps(CODED), "context_overflow"),
        (json.dumps(f"[{CODED}]"), "context_overflow"),
        (CODED[:-20], "context_overflow"),
        ([TOO_LONG], "context_overflow"),
        ("Input data may contain inappropriate content.", "content_refused"),
        ("Your credit balance is too low", "model_quota"),
        ("<html>Bad Gateway</html>", "model_config"),
        ("", "model_config"),
    ],
)
def test_what_a_gateway_passes_on_may_be_a_text_a_list_or_coded_again(raw: object, code: str) -> None:
    error = from_response(400, {}, to_json(wrapped(raw)))
    assert error.code == code
    assert code != "context_overflow" or "65536" in error.message
    assert from_event(wrapped(raw)["error"]).code == code


@pytest.mark.parametrize("member", ["details", "errors", "raw"])
@pytest.mark.parametrize("listed", [False, True])
def test_the_words_of_an_error_may_stand_beside_a_message_that_says_nothing(member: str, listed: bool) -> None:
    said = {"error": "Bad Request", member: [TOO_LONG] if listed else TOO_LONG}
    error = from_response(400, {}, to_json(said))
    assert (error.code, TOO_LONG in error.message) == ("context_overflow", True)


def test_a_text_that_a_gateway_passes_on_says_how_long_to_wait() -> None:
    error = from_response(429, {}, to_json(wrapped("m is rate-limited upstream. Please retry in 7s.", 429)))
    assert (error.code, error.retry_after) == ("model_rate_limited", 7)
    assert "rate-limited upstream" in error.message


@pytest.mark.parametrize("code", ["\u00b2", "\u0664\u0660\u0660", "9" * 5000, 10**400, -1, 1e300, True], ids=repr_of)
def test_a_code_that_is_no_number_of_a_status_is_none(code: object) -> None:
    assert from_event({"message": "no", "code": code}).code == "model_unavailable"
    assert from_response(429, {}, json.dumps(told("no", code=code)).encode()).code == "model_rate_limited"


@pytest.mark.parametrize("told_wait", [10**400, {"seconds": 10**400}, "9" * 5000, -(10**400)], ids=repr_of)
def test_a_wait_that_no_clock_can_count_is_none(told_wait: object) -> None:
    body = json.dumps(told("no", retry_after=told_wait)).encode()
    assert from_response(429, {}, body).retry_after in (None, 0)


@pytest.mark.parametrize(
    "header",
    [
        "Wed, 21 Oct 2015 07:28:00 +99999999999999",
        "Wed, 21 Oct 99999999999999999999 07:28:00 GMT",
        "Wed, 21 Oct 2015 07:28:99999999999999999999 GMT",
    ],
)
def test_a_date_that_no_calendar_has_is_none(header: str) -> None:
    assert from_response(429, {"retry-after": header}, b"").retry_after is None
