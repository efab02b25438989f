"""What the double of Anthropic's API answers, read by the package `anthropic`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import Anthropic

from agent_testing import Blocks, Call, Drop, Fail, FakeAnthropic, Say

MODEL = "claude-sonnet-5-5"
TOOL: Any = {"name": "read", "input_schema": {"type": "object"}}
HELLO: Any = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def api() -> Iterator[FakeAnthropic]:
    with FakeAnthropic([]) as api:
        yield api


@pytest.fixture(scope="module")
def client(api: FakeAnthropic) -> Iterator[Anthropic]:
    with Anthropic(base_url=api.url, api_key="any", max_retries=0) as client:
        yield client


def test_a_stream_has_thinking_text_and_calls_that_the_package_puts_together(
    api: FakeAnthropic, client: Anthropic
) -> None:
    arguments = {"path": "a.txt", "why": "it was asked for, at some length"}
    api.script.append(Say("Let me see.", reasoning="Read it first.", calls=(Call("read", arguments),)))
    with client.messages.stream(model=MODEL, max_tokens=100, messages=HELLO, tools=[TOOL]) as stream:
        kinds = [event.type for event in stream]
        message = stream.get_final_message()
    assert {"message_start", "content_block_delta", "message_delta", "message_stop"} <= set(kinds)
    thinking, text, call = [block.to_dict() for block in message.content]
    assert (thinking["type"], text["type"], call["type"]) == ("thinking", "text", "tool_use")
    assert (thinking["thinking"], text["text"], call["input"]) == ("Read it first.", "Let me see.", arguments)
    assert thinking["signature"]
    assert message.stop_reason == "tool_use"
    assert message.usage.output_tokens_details
    assert message.usage.output_tokens_details.thinking_tokens == 3
    assert message.usage.output_tokens > 6


def test_a_whole_answer_has_the_same_blocks(api: FakeAnthropic, client: Anthropic) -> None:
    blocks = ({"type": "redacted_thinking"}, {"type": "text", "text": "one"}, {"type": "text", "text": "two"})
    api.script.append(Blocks(content=blocks, finish_reason="length"))
    message = client.messages.create(model=MODEL, max_tokens=100, messages=HELLO)
    assert [block.type for block in message.content] == ["redacted_thinking", "text", "text"]
    assert message.stop_reason == "max_tokens"


def test_thinking_that_is_not_shown_has_only_a_signature(api: FakeAnthropic, client: Anthropic) -> None:
    api.script.append(Say("yes", reasoning="secret"))
    thinking: Any = {"type": "adaptive", "display": "omitted"}
    message = client.messages.create(model=MODEL, max_tokens=100, messages=HELLO, thinking=thinking)
    assert message.content[0].type == "thinking"
    assert (message.content[0].thinking, bool(message.content[0].signature)) == ("", True)


def test_a_model_that_does_not_think_leaves_it_out(api: FakeAnthropic, client: Anthropic) -> None:
    api.script.append(Say("yes", reasoning="secret"))
    message = client.messages.create(model="claude-sonnet-4-6", max_tokens=100, messages=HELLO)
    assert [block.type for block in message.content] == ["text"]


@pytest.mark.parametrize(
    ("step", "kind", "words"),
    [
        (Fail(401), anthropic.AuthenticationError, "invalid x-api-key"),
        (Fail(403), anthropic.PermissionDeniedError, "permission"),
        (Fail(429, retry_after=7), anthropic.RateLimitError, "rate limit"),
        (Fail(500), anthropic.InternalServerError, "Internal server error"),
        (Fail(529), anthropic.InternalServerError, "Overloaded"),
        (Fail(400, "prompt is too long: 3 tokens > 2 maximum"), anthropic.BadRequestError, "prompt is too long"),
    ],
)
def test_errors_have_the_bodies_of_the_api(
    api: FakeAnthropic, client: Anthropic, step: Fail, kind: type[anthropic.APIStatusError], words: str
) -> None:
    api.script.append(step)
    with pytest.raises(kind) as caught:
        client.messages.create(model=MODEL, max_tokens=100, messages=HELLO)
    error = caught.value
    assert error.status_code == step.status
    assert words in (error.api_message or "")
    assert (error.type or "").endswith("_error")
    assert error.request_id
    assert error.response.headers.get("retry-after") == (str(step.retry_after) if step.retry_after else None)


def test_a_dropped_stream_breaks_off(api: FakeAnthropic, client: Anthropic) -> None:
    api.script.append(Drop(after=3))
    with (
        pytest.raises(httpx2.RemoteProtocolError),
        client.messages.stream(model=MODEL, max_tokens=9, messages=HELLO) as s,
    ):
        s.get_final_message()


def test_only_the_right_key_opens() -> None:
    with FakeAnthropic([Say("hello")], api_key="right") as api:
        for key in ("wrong", "right"):
            client = Anthropic(base_url=api.url, api_key=key, max_retries=0)
            if key == "wrong":
                with pytest.raises(anthropic.AuthenticationError):
                    client.messages.create(model=MODEL, max_tokens=9, messages=HELLO)
            else:
                assert client.messages.create(model=MODEL, max_tokens=9, messages=HELLO).content[0].type == "text"


def test_tokens_are_counted_without_an_answer(api: FakeAnthropic, client: Anthropic) -> None:
    before = len(api.completions)
    assert client.messages.count_tokens(model=MODEL, messages=HELLO).input_tokens > 10
    assert len(api.completions) == before
    with pytest.raises(anthropic.BadRequestError, match="at least one message"):
        client.messages.count_tokens(model=MODEL, messages=[])


def test_the_cache_reads_what_was_written_up_to_a_breakpoint(api: FakeAnthropic, client: Anthropic) -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    system: Any = [{"type": "text", "text": "rules " * 2000, **mark}]
    first: Any = [{"role": "user", "content": [{"type": "text", "text": "hello", **mark}]}]
    more: Any = [
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": [{"type": "text", "text": "and?", **mark}]},
    ]
    other: Any = [{"type": "text", "text": "other " * 2000, **mark}]
    api.script.append(*[Say("yes")] * 4)

    def usage(**fields: Any) -> tuple[int, int, int]:
        used = client.messages.create(model=MODEL, max_tokens=9, **fields).usage
        return used.input_tokens, used.cache_read_input_tokens or 0, used.cache_creation_input_tokens or 0

    _, read, written = usage(system=system, messages=first)
    assert (read, written > 3000) == (0, True)
    rest, read_again, written_again = usage(system=system, messages=more)
    assert (rest, read_again) == (0, written)
    assert 0 < written_again < 100
    assert usage(system=other, messages=first)[1] == 0
    assert usage(messages=first)[1:] == (0, 0), "a short prompt is not cached"
