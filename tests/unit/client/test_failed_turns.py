"""A turn that ended without its whole answer is a failure to the caller, whatever its finish reason."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import pytest

from agent_client import Agent, TurnFailed
from agent_client.cli.answered_by import AnsweredBy
from agent_client.cli.chat.plain import PlainChat

START = 'data: {"type":"start","messageId":"m","messageMetadata":{"session_id":"s","message_id":"m"}}\n\n'
HALF = """\
data: {"type":"text-start","id":"1"}

data: {"type":"text-delta","id":"1","delta":"half of"}

data: {"type":"text-end","id":"1"}

"""
DEADLINE = {"status": "timeout", "error_code": "deadline_exceeded", "error": "took too long", "limit": "deadline"}
BUDGET = {"status": "failed", "error_code": "budget_exhausted", "error": "all is spent", "limit": "tokens"}
CHANNEL = {"status": "failed", "error_code": "channel_lost", "error": "no channel", "limit": "channel"}
CASES = [("other", DEADLINE), ("length", BUDGET), ("other", CHANNEL), ("error", CHANNEL)]


def agent(reason: str, outcome: dict[str, Any]) -> Agent:
    finish = {"type": "finish", "finishReason": reason, "messageMetadata": {"outcome": outcome}}
    text = f"{START}{HALF}data: {json.dumps(finish)}\n\ndata: [DONE]\n\n"
    headers = {"Content-Type": "text/event-stream"}
    return Agent(
        "http://server", transport=httpx2.MockTransport(lambda _: httpx2.Response(200, headers=headers, text=text))
    )


@pytest.mark.parametrize(("reason", "outcome"), CASES)
async def test_ask_raises_with_what_there_is(reason: str, outcome: dict[str, Any]) -> None:
    async with agent(reason, outcome) as one:
        with pytest.raises(TurnFailed) as caught:
            await one.ask("go")
    assert (caught.value.code, str(caught.value)) == (outcome["error_code"], outcome["error"])
    assert caught.value.reply.text == "half of"


async def no_lines() -> AsyncGenerator[str]:
    for line in ():
        yield line


@pytest.mark.parametrize(("reason", "outcome"), CASES)
async def test_a_chat_without_a_terminal_says_so(
    reason: str, outcome: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    async with agent(reason, outcome) as one:
        assert await PlainChat(one, "s", AnsweredBy()).turn("go", no_lines()) == 1
    assert capsys.readouterr().out == f"half of\nerror: {outcome['error']}\n"


@pytest.mark.parametrize(("reason", "outcome"), [("stop", {}), ("length", {}), ("tool-calls", {"limit": "max_rounds"})])
async def test_a_limit_is_no_failure_where_it_left_an_answer(reason: str, outcome: dict[str, Any]) -> None:
    async with agent(reason, outcome) as one:
        assert (await one.ask("go")).text == "half of"
        assert await PlainChat(one, "s", AnsweredBy()).turn("go", no_lines()) == 0
