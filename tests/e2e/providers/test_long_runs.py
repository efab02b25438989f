"""Forty turns with each provider, by a live agent through a live host: tools, reasoning, another model in between, a
restart, a compaction, a fork, an export and an import. Strict doubles refuse what the real ones refuse."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent_common.profiles import profile_of
from agent_testing import Call, FakeAnthropic, FakeResponses, Recorded, Say, Step, StrictProvider
from agent_testing.provider import ProviderThread
from tests.integration.host.live import Host

from ..live import Runtime, fresh
from .echoes import check_that_it_comes_back, check_that_others_do_not_see_it, texts_in

TURNS = 40
OTHER = "other"


@dataclass(frozen=True)
class Line:
    """A model of the catalog."""

    name: str
    dialect: str
    """The double: a name of the strict ones, `claude` or `responses`."""
    url: str
    """The real address, by which the table knows what the model takes."""
    model: str
    gives: bool = True
    """Whether it gives more than texts and calls."""


LINES = [
    Line("gemini", "gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro"),
    Line("deepseek", "deepseek", "https://api.deepseek.com", "deepseek-v4"),
    Line("kimi", "kimi", "https://api.moonshot.ai/v1", "kimi-k2-thinking"),
    Line("mistral", "mistral", "https://api.mistral.ai/v1", "magistral-medium"),
    Line("gpt-5", "openai", "https://api.openai.com/v1", "gpt-5.4", gives=False),
    Line("gpt-5-responses", "responses", "https://api.openai.com/v1", "gpt-5.4"),
    Line("claude", "claude", "https://api.anthropic.com", "claude-sonnet-5-5"),
    Line("openrouter", "openrouter", "https://openrouter.ai/api/v1", "anthropic/claude-sonnet-5.5"),
    Line(OTHER, "openai", "https://api.openai.com/v1", "gpt-5-mini", gives=False),
]
_numbers = itertools.count(1)


def answer(request: Recorded) -> Step:
    """Look at files, with one call or two, then answer in words that nothing else has; sum up when asked to."""
    number, fields = next(_numbers), request.fields
    if not fields.get("tools") and b"<conversation>" in request.body:
        return Say(f"## Summary {number}: they have read files.")
    said: Any = fields.get("messages") or fields.get("input")
    last = said[-1]
    if "tool_result" in json.dumps(last) or last.get("role") == "tool" or last.get("type") == "function_call_output":
        return Say(f"Answer {number}.", reasoning=f"That was number {number}, and it is all.")
    calls = (Call("read", {"path": "a.txt"}), Call("glob", {"pattern": "*"}))[: 1 + number % 2]
    return Say("I look. " * (number % 3 == 0), reasoning=f"Thought {number}: read, or list?", calls=calls)


@pytest.fixture(scope="module")
def doubles() -> Iterator[dict[str, ProviderThread]]:
    kinds: dict[str, type[FakeAnthropic | FakeResponses]] = {"claude": FakeAnthropic, "responses": FakeResponses}
    with ExitStack() as stack:
        yield {
            line.name: stack.enter_context(
                kinds[line.dialect](answer) if line.dialect in kinds else StrictProvider(line.dialect, answer)
            )
            for line in LINES
        }


def catalog(doubles: dict[str, ProviderThread]) -> str:
    providers: dict[str, Any] = {}
    models: dict[str, Any] = {}
    for line in LINES:
        providers[line.name] = {"base_url": doubles[line.name].url}
        entry: dict[str, Any] = {"provider": line.name, "model": line.model}
        if line.dialect == "claude":
            providers[line.name]["kind"] = "anthropic"
        else:
            entry["profile"] = profile_of(line.url, line.model).stated()
            entry["api"] = "responses" if line.dialect == "responses" else "chat"
        models[line.name] = entry
    return json.dumps({"providers": providers, "models": {**models, "default": models[OTHER]}})


@pytest.fixture(scope="module")
def host(doubles: dict[str, ProviderThread], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder: Path = tmp_path_factory.mktemp("host")
    (folder / "models.yaml").write_text(catalog(doubles))
    with Host(folder / "data", MESH_MODELS=folder / "models.yaml") as host:
        yield host


@pytest.fixture(scope="module")
def agents(
    host: Host, doubles: dict[str, ProviderThread], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Runtime, Runtime]]:
    """The agent that a session begins with, and the one that takes it over."""
    access = {"AGENT_LLM_BASE_URL": f"{host.url}/v1", "AGENT_MESH_TOKEN": host.token("writer")}
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(
                Runtime(doubles[OTHER], tmp_path_factory.mktemp(name), AGENT_CONFINEMENT="off", **access)
            )
            for name in ("first", "second")
        )
        yield first, second


def turn(agent: Runtime, session: str, model: str) -> None:
    reply = agent.chat("go", session_id=session, model=model)
    assert reply.status_code == 200, reply.text
    assert reply.json()["response"].startswith("Answer "), reply.text


def forty_turns(agents: tuple[Runtime, Runtime], model: str, other: str) -> None:
    agent, session = agents[0], fresh("s")
    for number in range(1, TURNS + 1):
        match number:
            case 8 | 24:
                agent.start()
            case 16:
                assert agent.post(f"/sessions/{session}/compact", {}).status_code == 200
            case 28:
                session = agent.post(f"/sessions/{session}/fork", {}).json()["id"]
            case 34:
                exported = agent.get(f"/sessions/{session}/export").content
                agent = agents[1]
                session = agent.http.post("/sessions/import", content=exported).json()["id"]
            case _:
                pass
        turn(agent, session, other if number in (5, 6, 12, 20, 30, 36) else model)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("line", LINES[:-1], ids=lambda line: line.name)
def test_forty_turns(
    agents: tuple[Runtime, Runtime], host: Host, doubles: dict[str, ProviderThread], line: Line
) -> None:
    double, other = doubles[line.name], doubles[OTHER]
    other.clear()
    forty_turns(agents, line.name, OTHER)
    rows = [row for row in host.recent(limit=500) if row["model"] in (line.name, OTHER)]
    assert [row["status"] for row in rows if row["status"] != "complete"] == []
    assert double.refusals == other.refusals == ()
    latest = check_that_it_comes_back(double.answers, double.completions)
    assert len(latest) >= 8
    assert all(bool(texts_in(rest)) == line.gives for rest in latest)
    check_that_others_do_not_see_it(double.answers, other.completions)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_forty_turns_without_a_host(tmp_path_factory: pytest.TempPathFactory) -> None:
    model, other = LINES[-2].model, LINES[-1].model
    with ExitStack() as stack:
        double = stack.enter_context(StrictProvider("openrouter", answer))
        first, second = (
            stack.enter_context(Runtime(double, tmp_path_factory.mktemp(name), AGENT_CONFINEMENT="off"))
            for name in ("first", "second")
        )
        forty_turns((first, second), model, other)
    assert double.refusals == ()
    asked = {name: [one for one in double.completions if one.fields["model"] == name] for name in (model, other)}
    for one, another in ((model, other), (other, model)):
        given = [(request, answer) for request, answer in double.answers if request.fields["model"] == one]
        assert len(check_that_it_comes_back(given, asked[one])) >= 4
        check_that_others_do_not_see_it(given, asked[another])
