"""A turn that is killed at its call goes on with the reasoning that came with the call, as it came: by the native APIs,
through a host. `test_kept_fields.py` has the same without one."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, FakeAnthropic, FakeResponses, Recorded, Say, Step
from tests.integration.host.live import Host

from ..live import PATIENCE, Runtime
from .echoes import check_that_it_comes_back


class Held:
    """A model that calls a tool, and answers its result only when the one that asked first is dead."""

    def __init__(self) -> None:
        self.reached, self.killed = threading.Event(), threading.Event()

    def __call__(self, request: Recorded) -> Step:
        said: list[dict[str, Any]] = request.fields.get("messages") or request.fields["input"]
        if not any(kind in json.dumps(said[-1]) for kind in ('"tool_result"', '"function_call_output"')):
            return Say(reasoning="I must read it first.", calls=(Call("read", {"path": "a.txt"}),))
        self.reached.set()
        self.killed.wait(PATIENCE)
        return Say("done")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("double", "provider", "model"),
    [
        pytest.param(FakeAnthropic, {"kind": "anthropic"}, {"model": "claude-sonnet-5-5"}, id="claude"),
        pytest.param(FakeResponses, {}, {"model": "gpt-5.4", "api": "responses"}, id="responses"),
    ],
)
def test_a_turn_that_was_killed_at_its_call_goes_on_with_its_reasoning(
    double: type[FakeAnthropic | FakeResponses], provider: dict[str, Any], model: dict[str, Any], tmp_path: Path
) -> None:
    held = Held()
    with double(held) as api:
        catalog = {
            "providers": {"one": {**provider, "base_url": api.url}},
            "models": {"default": {"provider": "one", **model}},
        }
        (tmp_path / "models.yaml").write_text(json.dumps(catalog))
        with Host(tmp_path / "host", MESH_MODELS=tmp_path / "models.yaml") as host:
            access = {"AGENT_LLM_BASE_URL": f"{host.url}/v1", "AGENT_MESH_TOKEN": host.token("writer")}
            with Runtime(api, tmp_path / "agent", AGENT_CONFINEMENT="off", **access) as agent:
                task = agent.assign()
                assert held.reached.wait(PATIENCE)
                agent.process.kill9()
                held.killed.set()
                agent.start()
                assert agent.result(task)["status"] == "complete"
        assert api.refusals == ()
        calls = [call for _, answer in api.answers for call in answer if "I must read it first." in json.dumps(call)]
        assert len(calls) == 1
        assert len(api.completions) == 3
        assert len(check_that_it_comes_back(api.answers, api.completions)) == 1
