"""A turn with a tool by each line of the table of providers in the docs, against a double of that provider."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent_common.profiles import profile_of
from agent_testing import Call, FakeAnthropic, FakeResponses, Recorded, Say, ScriptedProvider, Step, StrictProvider
from agent_testing.provider import ProviderThread
from tests.integration.host.live import Host
from tests.unit.host.provider_rows import ROWS

from ..live import Runtime, fresh

DOUBLES: dict[str, Callable[..., ProviderThread]] = {
    "OpenAI": partial(StrictProvider, "openai"),
    "OpenAI by": FakeResponses,
    "Claude": FakeAnthropic,
    **{name: partial(StrictProvider, name.lower()) for name in ("Gemini", "DeepSeek", "Kimi", "Mistral", "OpenRouter")},
}
"""Row -> its double; of the others, which refuse nothing that is known, the scripted provider."""
READ = Say(reasoning="I must look.", calls=(Call("read", {"path": "a.txt"}),))


def answer(request: Recorded) -> Step:
    said: list[dict[str, Any]] = request.fields.get("messages") or request.fields["input"]
    results = ("tool_result", "function_call_output", '"role": "tool"')
    return Say("done") if any(kind in json.dumps(said[-1]) for kind in results) else READ


@pytest.fixture(scope="module")
def doubles() -> Iterator[dict[str, ProviderThread]]:
    with ExitStack() as stack:
        kinds = {row.name: DOUBLES.get(row.name, ScriptedProvider) for row in ROWS}
        yield {name: stack.enter_context(double(answer)) for name, double in kinds.items()}


@pytest.fixture(scope="module")
def agent(doubles: dict[str, ProviderThread], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """An agent whose host has all the lines, with the doubles' addresses, and what is known of the real ones."""
    folder: Path = tmp_path_factory.mktemp("lines")
    providers = {row.name: {**row.provider, "base_url": doubles[row.name].url} for row in ROWS}
    models = {
        row.name: {
            **row.model,
            "provider": row.name,
            "profile": profile_of(row.provider["base_url"], row.model["model"]).stated(),
        }
        for row in ROWS
    }
    catalog = {"providers": providers, "models": {**models, "default": models["vLLM"]}}
    (folder / "models.yaml").write_text(json.dumps(catalog))
    keys = {row.provider["api_key_env"]: "sk-1" for row in ROWS if "api_key_env" in row.provider}
    with Host(folder / "host", MESH_MODELS=folder / "models.yaml", **keys) as host:
        access = {"AGENT_LLM_BASE_URL": f"{host.url}/v1", "AGENT_MESH_TOKEN": host.token("writer")}
        with Runtime(doubles["vLLM"], folder / "agent", AGENT_CONFINEMENT="off", **access) as agent:
            yield agent


@pytest.mark.parametrize("name", [row.name for row in ROWS])
def test_a_turn_with_a_tool(agent: Runtime, doubles: dict[str, ProviderThread], name: str) -> None:
    reply = agent.chat("go", session_id=fresh("s"), model=name)
    assert (reply.status_code, reply.json().get("response")) == (200, "done"), reply.text
    assert [call["name"] for call in reply.json()["tool_outputs"]] == ["read"]
    assert doubles[name].refusals == ()
    assert len(doubles[name].completions) == 2
