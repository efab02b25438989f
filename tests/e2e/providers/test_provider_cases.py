"""Every known way in which providers differ, against a live runtime: straight at the provider, and through a host.

A provider that sends the bytes of a case, or refuses what it refuses, is asked as a person or a task would ask it. Each
case has a model and a session of its own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_testing import Call, Recorded, Say, ScriptedProvider
from tests.integration.connectors.test_hostile import hostile
from tests.integration.host.live import Host

from ..live import Runtime, eventually, fresh
from ..narrow import is_summary
from .cases import Case, corpus, other_forms, rule_of

CASES = {case.id: case for case in (*corpus(), *other_forms())}
QUICK = {"AGENT_MODEL_ATTEMPTS": 2, "AGENT_MODEL_IDLE_TIMEOUT": 2, "AGENT_CONFINEMENT": "off"}
LISTED = {"E21"}
"""Cases about the list of models, which a host does not ask for."""
ONE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
"""Usage of the steps that follow the case's own."""
AGENTS: dict[str, dict[str, Any]] = {
    "twice": {"max_steps": 2},
    "once": {"max_steps": 1},
    "bare": {"tools": []},
    "served": {"tools": ["mcp:21st:*"]},
}
READ = Call("read", {"path": "a.txt"})
BLANK = Say(pieces=("\n\n",), calls=(READ,))


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(models=["default", *(case.model for case in CASES.values())]) as provider:
        yield provider


@pytest.fixture(scope="module")
def straight(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    with Runtime(provider, with_server(tmp_path_factory.mktemp("straight")), **QUICK) as runtime:
        write_agents(runtime)
        yield runtime


@pytest.fixture(scope="module")
def host(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    models = {name: {"provider": "one"} for name in ("default", "other", *(case.model for case in CASES.values()))}
    (folder / "models.yaml").write_text(
        json.dumps({"providers": {"one": {"base_url": provider.url}}, "models": models})
    )
    with Host(folder / "data", MESH_MODELS=folder / "models.yaml") as host:
        yield host


@pytest.fixture(scope="module")
def hosted(provider: ScriptedProvider, host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    here = {"AGENT_LLM_BASE_URL": "", "AGENT_MESH_URL": host.url, "AGENT_MESH_TOKEN": host.token("agent")}
    with Runtime(provider, with_server(tmp_path_factory.mktemp("hosted")), **QUICK, **here) as runtime:
        write_agents(runtime)
        eventually(lambda: runtime.get("/capabilities").json()["models"])
        yield runtime


@pytest.fixture(params=["straight", "hosted"])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    runtime: Runtime = request.getfixturevalue(request.param)
    runtime.provider.clear()
    return runtime


def with_server(folder: Path) -> Path:
    """The folder, with an MCP server whose name begins with a digit."""
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"21st": hostile("")}}))
    return folder


def write_agents(runtime: Runtime) -> None:
    folder = runtime.data_dir / "agents"
    folder.mkdir(exist_ok=True)
    for name, fields in AGENTS.items():
        known = {"mode": "all", "permissions": {"*": "allow"}, "prompt": f"You are {name}."}
        (folder / f"{name}.json").write_text(json.dumps({**known, **fields}))


# ---------------------------------------------------------------- what comes back


class Told:
    """What a person is told about one turn."""

    def __init__(self, runtime: Runtime, model: str, session: str, **more: Any) -> None:
        asked = len(runtime.provider.completions)
        began = time.monotonic()
        self.status, self.reply = 0, {}
        reply = runtime.chat("go", session_id=session, model=model, **more)
        self.status, self.reply = reply.status_code, reply.json()
        self.seconds = time.monotonic() - began
        self.requests: list[Recorded] = runtime.provider.completions[asked:]
        self.refusals = 0
        """Requests that a rule of the case has refused."""
        messages = runtime.get(f"/sessions/{session}/messages").json()["messages"]
        self.parts: list[dict[str, Any]] = messages[-1]["parts"]

    @property
    def calls(self) -> list[dict[str, Any]]:
        return [{"name": made["name"], "arguments": made["input"]} for made in self.reply["tool_outputs"]]

    def said(self, kind: str) -> str:
        """The text or the reasoning of the first answer that counted."""
        kept = self.parts
        for at, part in enumerate(kept):
            if part["type"] == "data-retry":
                kept = kept[at + 1 :]
        ends = [at for at, part in enumerate(kept) if part["type"] == "step-start" and at]
        return "".join(part["text"] for part in kept[: ends[0] if ends else None] if part["type"] == kind)


def check_calls(told: Told, wanted: Any) -> None:
    assert told.calls == wanted


def check_error(told: Told, wanted: dict[str, Any]) -> None:
    assert told.status >= 400, told.reply
    text = told.reply["detail"]
    for name, value in wanted.items():
        match name:
            case "code":
                assert told.reply["code"] == value, told.reply
            case "code_not":
                assert told.reply["code"] != value, told.reply
            case "transient":  # what a person has seen is never taken back
                assert len(told.requests) == (2 if value and not told.said("text") else 1), text
            case "message_has":
                assert value in text
            case "message_not_has":
                assert value not in text
            case "limit":
                assert str(value) in text
            case "retry_after":
                assert told.seconds > value or str(value) in json.dumps(told.reply), told.reply
            case _:
                raise AssertionError(f"the test does not know {name}")


def check_usage(told: Told, wanted: dict[str, int]) -> None:
    used = told.reply["usage"]
    steps = len(told.requests) - 1
    rest = {"input": steps, "output": steps}
    assert {name: used[name] - rest.get(name, 0) for name in wanted} == wanted


def check_stop(told: Told, wanted: str) -> None:
    assert bool(told.calls) == (wanted == "tool-calls")
    assert told.reply["finish_reason"] == "stop"
    assert "limit" not in told.reply or told.reply["limit"] is None


def check_refusals(told: Told, wanted: bool) -> None:
    assert (told.status == 200, told.refusals == 0) == (wanted, wanted), told.reply


def check_reported(told: Told, wanted: bool) -> None:
    """A usage that nobody has reported is a quarter of what was sent and received."""
    sent, received = len(told.requests[0].body), len(told.said("text"))
    used = told.reply["usage"]
    estimated = (pytest.approx(sent / 4, rel=0.1), -(-received // 4))  # the host adds a little to a request
    assert ((used["input"], used["output"]) != estimated) == wanted, (used, estimated)


CHECKS: dict[str, Callable[[Told, Any], None]] = {
    "text": lambda told, wanted: _equal(told.said("text").strip(), wanted),
    "reasoning": lambda told, wanted: _equal(told.said("reasoning").strip(), wanted),
    "calls": check_calls,
    "error": check_error,
    "usage": check_usage,
    "usage_reported": check_reported,
    "stop_reason": check_stop,
    "next_request_passes": check_refusals,
    "max_seconds": lambda told, wanted: _equal(told.seconds < wanted, True),
    "not_a_plain_answer": lambda told, wanted: _equal(bool(told.calls), wanted),
    "retried_once": lambda told, wanted: _equal((len(told.requests), told.reply["response"]), (2, "again")),
}


def _equal(found: object, wanted: object) -> None:
    assert found == wanted


def steps_of(case: Case) -> tuple[list[Any], Any]:
    """The answers of a provider that sends a case: in order, and whenever it is asked further."""
    if case.id == "E13":  # it loads for a while
        return [case.answer, case.answer], Say("4", usage=ONE)
    if case.want.get("error"):
        return [], case.answer
    return [case.answer], Say("again" if "retried_once" in case.want else "done", usage=ONE)


ANSWERS = [case for case in CASES.values() if case.response and case.id not in LISTED]
WAITING = {"A02", "E11", "E13", "E14"}
"""Cases in which somebody waits for seconds."""


def tried(case: Case) -> object:
    return pytest.param(case, id=case.id, marks=pytest.mark.slow if case.id in WAITING else ())


@pytest.mark.parametrize("case", [tried(case) for case in ANSWERS])
def test_an_answer_is_read_as_it_was_meant(runtime: Runtime, case: Case) -> None:
    script = runtime.provider.script
    script.replace(*steps_of(case))
    refusals: list[Any] = []
    if case.next_request_rule:
        refused, refusal = rule_of(case.next_request_rule)

        def refuses(request: dict[str, Any]) -> bool:
            if found := len(request["messages"]) > 2 and refused(request):
                refusals.append(request)
            return found

        script.refuse(refuses, refusal)
    if case.id == "E20":
        check_a_window_that_is_smaller_than_thought(runtime, case)
        return
    told = Told(runtime, case.model, fresh(case.id))
    told.refusals = len(refusals)
    wanted = {"text": "4"} if case.id == "E13" else case.want
    for name, value in wanted.items():
        CHECKS[name](told, value)


def check_a_window_that_is_smaller_than_thought(runtime: Runtime, case: Case) -> None:
    """The log says so, and no further request is larger than that window: what was said before is summed up."""

    def cutting(request: Recorded) -> Any:
        return Say("## They have words.") if is_summary(request) else case.answer

    runtime.provider.script.replace(cutting)
    session = fresh("E20")
    for words in (6000, 6000, 1):
        asked = len(runtime.provider.completions)
        reply = runtime.chat("word " * words, session_id=session, model=case.model, agent="bare")
        assert reply.status_code == 200, reply.text
    said = runtime.process.wait_for_output(f'.*window.*"{case.model}".*', 10)
    assert "2051" in said.group()
    *summaries, last = runtime.provider.completions[asked:]
    assert summaries
    assert all(is_summary(request) for request in summaries)
    assert "They have words." in str(last.messages)
    assert max(len(request.body) for request in (*summaries, last)) < 2051 * len("word ")


def test_usage_of_zeros_is_an_estimate_in_the_ledger(hosted: Runtime, host: Host) -> None:
    case = CASES["D03"]
    hosted.provider.script.replace(*steps_of(case))
    assert Told(hosted, case.model, fresh("s")).status == 200
    (row,) = (row for row in host.recent(limit=1) if row["model"] == case.model)
    assert row["estimated"] is True


# ---------------------------------------------------------------- what is sent


def ask_twice(runtime: Runtime, case: Case, session: str, *first: Any) -> Told:
    """A turn with another model that makes a call, then one with the case's."""
    runtime.provider.script.replace([*first, Say("done")], Say("fine"))
    assert runtime.chat("go", session_id=session, model="default").status_code == 200
    return strict(runtime, case, session)


def strict(runtime: Runtime, case: Case, session: str, *steps: Any, **more: Any) -> Told:
    """A turn with the case's strict provider."""
    assert case.request_rule
    runtime.provider.script.replace(list(steps), Say("fine"))
    runtime.provider.script.refuse(*rule_of(case.request_rule))
    return Told(runtime, case.model, session, **more)


def limited(runtime: Runtime, case: Case, session: str) -> Told:
    """A task with a limit of tokens."""
    (runtime.data_dir / "agents" / "frugal.json").write_text(
        json.dumps({"mode": "all", "permissions": {"*": "allow"}, "model": case.model})
    )
    assert case.request_rule
    runtime.provider.script.replace(None, Say("fine"))
    runtime.provider.script.refuse(*rule_of(case.request_rule))
    assert runtime.run(agent="frugal", token_budget={"max_tokens": 20_000})["status"] == "complete"
    return Told(runtime, case.model, session)


def bare(runtime: Runtime, case: Case, session: str) -> Told:
    """A session with calls that goes on with an agent without tools."""
    runtime.provider.script.replace([READ, Say("done")])
    assert runtime.chat("go", session_id=session, model="default").status_code == 200
    return strict(runtime, case, session, agent="bare")


def served(runtime: Runtime, case: Case, session: str) -> Told:
    """A turn that offers the tools of the MCP server."""
    runtime.meets_its_servers()
    told = strict(runtime, case, session, agent="served")
    assert "21st_ok" in str(told.requests[-1].fields["tools"])
    return told


ASKED: dict[str, Callable[[Runtime, Case, str], Told]] = {
    "F01": strict,
    "F02": limited,
    "F04": lambda runtime, case, session: strict(runtime, case, session, READ, agent="twice"),
    "F06": lambda runtime, case, session: strict(runtime, case, session, BLANK),
    "F07": lambda runtime, case, session: ask_twice(runtime, case, session, Call("read", {"path": "a"}, id="c" * 46)),
    "F08": lambda runtime, case, session: ask_twice(runtime, case, session, Call("read", {"path": "a"}, id="call_0")),
    "F10": served,
    "F14": lambda runtime, case, session: strict(runtime, case, session, agent="once"),
    "F15": bare,
}


WITH_CALLS = ("F04", "F06", "F07", "F08", "F15")
"""Cases whose accepted request still tells of the call."""
REQUESTS = [case for case in CASES.values() if case.request_rule]


@pytest.mark.parametrize("case", REQUESTS, ids=[case.id for case in REQUESTS])
def test_a_request_is_sent_as_a_strict_provider_takes_it(runtime: Runtime, case: Case) -> None:
    told = ASKED[case.id](runtime, case, fresh(case.id))
    assert told.status == 200, told.reply
    assert told.reply["response"] == "fine"
    if case.id in WITH_CALLS:  # and not because a compaction has left them out
        assert any("read" in str(message) for message in told.requests[-1].messages[1:])


def test_a_list_of_models_in_another_shape_is_read(tmp_path: Path) -> None:
    case = CASES["E21"]
    with ScriptedProvider(models=case.answer) as provider, Runtime(provider, tmp_path, **QUICK) as runtime:
        assert eventually(lambda: runtime.get("/capabilities").json()["models"]) == case.want["models"]


def test_every_case_of_the_corpus_is_tried() -> None:
    tried = {case.id for case in (*ANSWERS, *REQUESTS)} | LISTED
    assert tried == set(CASES)
    assert ASKED.keys() == {case.id for case in REQUESTS}
