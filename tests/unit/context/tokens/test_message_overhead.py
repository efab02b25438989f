"""What a message costs beside its texts."""

from __future__ import annotations

import pytest

from agent_runtime.context.tokens import EncodingName
from agent_runtime.context.tokens.encodings import encoder
from agent_runtime.context.tokens.message_overhead import CALL, MESSAGE, PICTURE, REPLY, message_tokens
from tests.unit.context.tokens.corpus import called, message

count = encoder("o200k_base").count


def test_messages_count_as_openai_says() -> None:
    """The example of OpenAI's cookbook, and what the API reports for it: 129 for gpt-4, 124 for gpt-4o."""
    said = [
        ("system", None, "You are a helpful, pattern-following assistant that translates corporate jargon into plain "
         "English."),
        ("system", "example_user", "New synergies will help drive top-line growth."),
        ("system", "example_assistant", "Things working well together will increase revenue."),
        ("system", "example_user", "Let's circle back when we have more bandwidth to touch base on opportunities for "
         "increased leverage."),
        ("system", "example_assistant", "Let's talk later when we're less busy about how to do better."),
        ("user", None, "This late pivot means we don't have time to boil the ocean for the client deliverable."),
    ]  # fmt: skip
    messages = [message(role, text, **({"name": name} if name else {})) for role, name, text in said]
    expected: dict[EncodingName, int] = {"cl100k_base": 129, "o200k_base": 124}
    for name, reported in expected.items():
        assert REPLY + sum(message_tokens(one, encoder(name).count) for one in messages) == reported


def test_a_tool_call_costs_its_name_and_its_arguments() -> None:
    one = called("read", {"path": "a.md"})
    assert message_tokens(one, count) == MESSAGE + count("assistant") + CALL + count("read") + count('{"path":"a.md"}')
    assert message_tokens(called("read", {"path": "a.md"}, "So."), count) == message_tokens(one, count) + count("So.")


def test_the_id_of_a_call_costs_nothing() -> None:
    short, long = (message("tool", "done", tool_call_id=one) for one in ("1", "call_01JD3M5Q8R7X9K2"))
    assert message_tokens(short, count) == message_tokens(long, count) == MESSAGE + count("tool") + count("done")


def test_content_in_parts_costs_its_texts_and_a_picture_a_flat_sum() -> None:
    parts = [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:..."}}]
    expected = MESSAGE + count("user") + count("What is this?") + PICTURE
    assert message_tokens(message("user", parts), count) == expected


@pytest.mark.parametrize(
    "odd",
    [
        b"",
        b"{",
        b"[1]",
        b'"text"',
        b"\xff\xfe",
        b'{"role": "user", "content": "\\ud800"}',
        b'{"role": 7, "content": {"a": 1}, "x": true}',
        b'{"role": "assistant", "tool_calls": [1, {"function": 2}, {"function": {"name": 3}}]}',
        b'{"role": "user", "content": [null, "text", {"text": 5}]}',
    ],
)
def test_what_is_no_message_costs_something_all_the_same(odd: bytes) -> None:
    assert message_tokens(odd, count) >= MESSAGE
