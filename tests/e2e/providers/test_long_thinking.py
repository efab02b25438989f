"""Thinking that is longer than all else that is kept with a part: the turn goes on, also elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_testing import Call, FakeAnthropic, FakeResponses, Say, StrictProvider
from agent_testing.provider import ProviderThread
from tests.integration.host.live import Host

from ..live import Runtime, fresh

CATALOG = """
providers:
  it: {{base_url: "{url}", kind: {kind}}}
models:
  default: {{provider: it, model: {model}, api: {api}}}
"""
KINDS = {
    "claude": (FakeAnthropic, "anthropic", "claude-sonnet-5-5", "chat"),
    "responses": (FakeResponses, "openai", "gpt-5.4", "responses"),
    "openrouter": (lambda: StrictProvider("openrouter"), "openai", "anthropic/claude-sonnet-5.5", "chat"),
}
LONG = "thoughts" * 40_000  # 320 KB


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_with_long_thinking_goes_on(tmp_path: Path, kind: str) -> None:
    double, provider, model, api = KINDS[kind]
    calls = (Call("glob", {"pattern": "*"}),)
    api_double: ProviderThread
    with double() as api_double:
        (tmp_path / "models.yaml").write_text(CATALOG.format(url=api_double.url, kind=provider, model=model, api=api))
        with Host(tmp_path / "host", MESH_MODELS=tmp_path / "models.yaml") as host:
            access = {"AGENT_LLM_BASE_URL": f"{host.url}/v1", "AGENT_MESH_TOKEN": host.token("writer")}
            session = fresh("s")
            with Runtime(api_double, tmp_path / "agent", AGENT_CONFINEMENT="off", **access) as agent:
                api_double.script.replace([Say(reasoning=LONG, calls=calls)], otherwise=Say("done", reasoning="So."))
                assert agent.chat("go", session_id=session).json()["response"] == "done"
                assert len(api_double.completions[-1].body) > len(LONG)
                exported = agent.get(f"/sessions/{session}/export").content
            with Runtime(api_double, tmp_path / "other", AGENT_CONFINEMENT="off", **access) as other:
                taken = other.http.post("/sessions/import", content=exported).json()["id"]
                assert other.chat("go", session_id=taken).json()["response"] == "done"
                assert len(api_double.completions[-1].body) > len(LONG), "it is still sent"
