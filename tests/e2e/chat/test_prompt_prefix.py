"""In a session each request begins with the bytes of the one before, so the provider's cache stays useful
(docs/explanation/design.md#the-prompt-prefix-never-changes)."""

from __future__ import annotations

import itertools
import re

import pytest

from agent_testing import Call, Recorded, Say, ScriptedProvider
from agent_testing import Step as Reply

from ..conftest import Start

LOOK = (Call("glob", {"pattern": "*.\u2028"}), Call("read", {"path": "no"}))
_BODY = re.compile(rb'\{.*?,"messages":\[(.*)\],"tools":(\[.*\]),"tool_choice":"(?:auto|none)"\}', re.DOTALL)


def answer(request: Recorded) -> Reply:
    """Now and then with a tool or two, and with characters that JSON may write in several ways."""
    number = int(request.last_user_text.split()[-1])
    behind = sum(1 for _ in itertools.takewhile(lambda one: one["role"] != "user", reversed(request.messages)))
    if number % 20 == 0 and not behind:
        return Say("I look: é \u2028 </x> 🙂", calls=LOOK)
    if number % 33 == 0 and behind < 4:
        return Call("glob", {"pattern": f"*.{number}-{behind}"})
    return Say(f'answer {number} \t"quoted" \\ é ☃')


def pieces(request: Recorded) -> tuple[bytes, bytes]:
    """The tools and the messages of a request, byte for byte, without the bracket behind them."""
    found = _BODY.fullmatch(request.body)
    assert found is not None, request.body[:200]
    return found[2], found[1]


@pytest.mark.slow
def test_each_request_of_two_hundred_turns_extends_the_one_before(start: Start, provider: ScriptedProvider) -> None:
    provider.script.replace(answer)
    agent = start()
    for turn in range(200):
        if turn in (60, 140):
            agent.process.kill9() if turn == 60 else agent.sigterm()
            agent.process.wait(10)
            agent.start()
        reply = agent.chat(f"é ☃ question {turn}", session_id="long")
        assert reply.status_code == 200, reply.text[:500]
    requests = [pieces(request) for request in provider.completions]
    assert len(requests) > 210
    for at, (earlier, later) in enumerate(itertools.pairwise(requests)):
        assert later[0] == earlier[0], f"request {at + 1} has other tools"
        assert later[1].startswith(earlier[1] + b","), f"request {at + 1} does not begin with the one before"
