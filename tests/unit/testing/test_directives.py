"""Answers that the user's message asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_testing import Call, Recorded, Say, Step
from agent_testing.provider.directives import follow_directives


def step_for(content: Any, *after: dict[str, Any]) -> Step:
    messages = [{"role": "system", "content": "tools:9"}, {"role": "user", "content": content}, *after]
    body = json.dumps({"messages": messages}).encode()
    return follow_directives(Recorded("POST", "/v1/chat/completions", (), body, 0.0))


TOOL_MESSAGE = {"role": "tool", "content": "{}"}


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("how are you", Say("ok")),
        ("echo this", Say("echo this")),
        ("It is noon.\n\nsay:good day\nsecond line", Say("good day")),
        ("stream:3:20", Say(pieces=("word ",) * 3, delay=0.02)),
        ('{"input_data": {"do": "tools:2"}}', Call("glob", '{"pattern": "no-such-file-1"}')),
        ('tools:2:read:{"path": "{n}.txt"}', Call("read", '{"path": "1.txt"}')),
        ('tool:bash:{"command": "ls"}', Call("bash", '{"command": "ls"}')),
        ([{"type": "text", "text": "say:parts"}], Say("parts")),
        (None, Say("ok")),
    ],
)
def test_a_directive_is_found_anywhere_in_the_last_user_message(text: Any, step: Step) -> None:
    assert step_for(text) == step


def test_rounds_are_counted_from_the_conversation() -> None:
    assert step_for("tools:2", TOOL_MESSAGE) == Call("glob", '{"pattern": "no-such-file-2"}')
    assert step_for("tools:2", TOOL_MESSAGE, TOOL_MESSAGE) == Say("done")
    assert step_for("tool:read:{}", TOOL_MESSAGE) == Say("done")


def test_a_conversation_without_a_user_gets_an_answer_too() -> None:
    assert follow_directives(Recorded("POST", "/", (), b'{"messages": "none"}', 0.0)) == Say("ok")
