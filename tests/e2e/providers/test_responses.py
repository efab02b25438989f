"""A live agent behind a live host whose model speaks OpenAI's Responses API, against a strict double of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_testing import Call, FakeResponses, Items, Recorded, Say, Step
from tests.integration.host.live import Host

from ..live import Runtime, fresh

CATALOG = """
providers:
  oai: {{base_url: "{url}", api_key_env: OAI_KEY}}
models:
  default:
    {{provider: oai, model: gpt-5.4, api: responses, reasoning_effort: medium,
     pricing: {{input: 1, output: 8, cache_read: 0.1}}}}
"""
PLAIN = Say(
    "I must look.",
    reasoning="First read, then list.",
    calls=(Call("read", {"path": "a.txt"}), Call("glob", {"pattern": "*"})),
)
INTERLEAVED = Items(
    output=(
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Both, one by one."}]},
        {"type": "function_call", "name": "read", "arguments": '{"path":"a.txt"}'},
        {"type": "reasoning", "summary": []},
        {"type": "message", "content": [{"type": "output_text", "annotations": [], "text": "And the others."}]},
        {"type": "function_call", "name": "glob", "arguments": '{"pattern":"*"}'},
    )
)


def answer(request: Recorded) -> Step:
    """Call tools at first, then answer; a refusal of the double never gets here."""
    items = request.json["input"]
    if items[-1].get("type") == "function_call_output":
        return Say("done", reasoning="That is all.")
    return INTERLEAVED if sum(item.get("role") == "user" for item in items) % 2 else PLAIN


@pytest.fixture(scope="module")
def api() -> Iterator[FakeResponses]:
    with FakeResponses(answer, api_key="sk-oai") as api:
        yield api


@pytest.fixture(scope="module")
def agent(api: FakeResponses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    folder: Path = tmp_path_factory.mktemp("responses")
    (folder / "models.yaml").write_text(CATALOG.format(url=api.url))
    with Host(folder / "host", MESH_MODELS=folder / "models.yaml", OAI_KEY="sk-oai") as host:
        access = {"AGENT_LLM_BASE_URL": f"{host.url}/v1", "AGENT_MESH_TOKEN": host.token("writer")}
        with Runtime(api, folder / "agent", AGENT_CONFINEMENT="off", **access) as agent:
            yield agent


@pytest.mark.slow
def test_turns_with_tools_go_on_over_a_restart(agent: Runtime, api: FakeResponses) -> None:
    session = fresh("s")
    replies = [agent.chat("go", session_id=session) for _ in range(2)]
    agent.start()
    replies += [agent.chat("go", session_id=session) for _ in range(2)]
    assert [reply.json().get("response") for reply in replies] == ["done"] * 4, replies[-1].text
    usage = replies[-1].json()["usage"]
    assert usage["cache_read"] > 0
    assert usage["reasoning"] > 0
    assert usage["cost_usd"] > 0
    sent = api.completions[-1].json
    assert sent["store"] is False
    assert sent["include"] == ["reasoning.encrypted_content"]
    assert sent["prompt_cache_key"]
    kinds = [item.get("type", item.get("role")) for item in sent["input"]]
    turn = ["reasoning", "function_call", "reasoning", "message", "function_call"]
    assert kinds[1:6] == turn
    assert kinds[6:10] == ["function_call_output", "function_call_output", "reasoning", "message"]
    assert sent["input"][: len(api.completions[-2].json["input"])] == api.completions[-2].json["input"]
    parts = agent.get(f"/sessions/{session}/messages").json()["messages"][1]["parts"]
    assert "Both, one by one." in [part["text"] for part in parts if part["type"] == "reasoning"]
