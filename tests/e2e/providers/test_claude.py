"""A live agent behind a live host with a key for Claude, against a strict double of Anthropic's API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_testing import Blocks, Call, FakeAnthropic, Recorded, Say, Step
from tests.integration.host.live import Host

from ..live import Runtime, fresh
from ..narrow import is_summary

PLAIN = Say("I must look.", reasoning="First read, then list.", calls=(Call("read", {"path": "a.txt"}),))
INTERLEAVED = Blocks(
    content=(
        {"type": "redacted_thinking"},
        {"type": "text", "text": "Let me see. "},
        {"type": "thinking", "thinking": "Both at once."},
        {"type": "tool_use", "name": "read", "input": {"path": "a.txt"}},
        {"type": "tool_use", "name": "glob", "input": {"pattern": "*"}},
    )
)


def answer(request: Recorded) -> Step:
    """Call tools at first, then answer; a refusal of the double never gets here."""
    if is_summary(request):
        return Say("## They have read files.")
    last = request.messages[-1]["content"]
    if any(block.get("type") == "tool_result" for block in last):
        return Say("done", reasoning="That is all.")
    return INTERLEAVED if len(request.messages) // 4 % 2 else PLAIN


@pytest.fixture(scope="module")
def claude() -> Iterator[FakeAnthropic]:
    with FakeAnthropic(answer) as claude:
        yield claude


@pytest.fixture(scope="module")
def agent(claude: FakeAnthropic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder: Path = tmp_path_factory.mktemp("claude")
    with Host(folder / "host", ANTHROPIC_API_KEY="sk-ant", ANTHROPIC_BASE_URL=claude.url) as host:
        access = {"AGENT_LLM_BASE_URL": f"{host.url}/v1", "AGENT_MESH_TOKEN": host.token("writer")}
        with Runtime(claude, folder / "agent", AGENT_CONFINEMENT="off", **access) as agent:
            yield agent


@pytest.mark.slow
def test_turns_with_tools_go_on_over_a_restart(agent: Runtime, claude: FakeAnthropic) -> None:
    session = fresh("s")
    replies = [agent.chat("go", session_id=session) for _ in range(2)]
    agent.start()
    replies += [agent.chat("go", session_id=session) for _ in range(2)]
    assert [reply.json().get("response") for reply in replies] == ["done"] * 4, replies[-1].text
    usage = replies[-1].json()["usage"]
    assert usage["cache_read"] > 0
    assert usage["reasoning"] > 0
    assert usage["cost_usd"] > 0
    sent = claude.completions[-1].json
    kinds = [[block["type"] for block in message["content"]] for message in sent["messages"]]
    assert ["redacted_thinking", "text", "thinking", "tool_use", "tool_use"] in kinds
    assert ["thinking", "text", "tool_use"] in kinds
    first = claude.completions[0].json["messages"]
    assert [{**block, "cache_control": None} for block in sent["messages"][0]["content"]] == [
        {**block, "cache_control": None} for block in first[0]["content"]
    ], "the prefix stays as it was"
