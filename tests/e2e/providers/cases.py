"""The corpus of ways in which providers differ, as steps and rules of the scripted provider."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_testing import Raw

CORPUS = Path(__file__).parents[2] / "corpora" / "providers" / "provider_cases.json"
MAX_WAIT = 3.0
"""Seconds to which a silence of minutes is scaled; the servers of the tests allow a second between two pieces."""


@dataclass(frozen=True)
class Case:
    """One way in which a provider differs, and what is right."""

    id: str
    title: str
    want: dict[str, Any]
    response: dict[str, Any] | None = None
    request_rule: dict[str, Any] | None = None
    next_request_rule: dict[str, Any] | None = None

    @property
    def model(self) -> str:
        """The name of its model: what is learned about one is not known of another."""
        return f"case-{self.id.lower()}"

    @property
    def answer(self) -> Raw:
        assert self.response is not None
        response = self.response
        timing: dict[str, Any] = response.get("timing", {})
        return Raw(
            tuple(response["body_chunks"]),
            response["status"],
            response["headers"],
            response.get("encoding", "utf-8"),
            wait=min(MAX_WAIT, timing.get("before_head_seconds", 0)),
            delay=0.002,
            heartbeat=": ping\n\n" if "after_last_chunk" in timing else None,
            heartbeat_seconds=0.5,
        )


Refused = Callable[[dict[str, Any]], bool]


def rule_of(described: dict[str, Any]) -> tuple[Refused, Raw]:
    """Return what a strict provider refuses, and how."""
    code = compile(described["python"], described["when"], "eval")
    body = json.dumps(described["body"])
    return (
        lambda request: bool(eval(code, {"re": re, "json": json, "r": request})),  # noqa: S307  our own corpus
        Raw((body,), described["status"], described["headers"]),
    )


def corpus() -> list[Case]:
    kept = Case.__dataclass_fields__
    return [
        Case(**{name: value for name, value in found.items() if name in kept})
        for found in json.loads(CORPUS.read_text("utf-8"))
    ]


def other_forms() -> list[Case]:
    """The other forms of cases, which the corpus only names."""
    cases = {case.id: case for case in corpus()}
    a06, a12, b01, b05, b16, c08, e07, e10 = (
        cases[name] for name in ("A06", "A12", "B01", "B05", "B16", "C08", "E07", "E10")
    )
    old_vllm = {"object": "error", "message": "engine dead", "type": "InternalServerError", "code": 500}
    dead = {"error": {"message_has": "engine dead", "transient": True}}
    read, listed = _call("read", {"path": "a.txt"}, "call_a"), _call("glob", {"pattern": "*"}, "call_b")
    first, second = b01.want["calls"]
    both = {"calls": [first, {"name": "glob", "arguments": {"pattern": "*"}}]}
    written = {"name": "read", "arguments": {"path": "a.txt"}}
    final: dict[str, Any] = {"transient": False}
    no_credits = {"code": 402, "message": "This request requires more credits"}
    wrong_key = {"code": 401, "message": "No auth credentials found"}
    return [
        _form(a06, "vllm", [old_vllm], dead),
        _form(b01, "names", [_delta(tool_calls=[read]), _delta(tool_calls=[listed])], both),
        _form(b01, "one-chunk", [_delta(tool_calls=[read, listed])], both),
        _form(
            b01,
            "no-ids",
            [_delta(tool_calls=[_call("read", one["arguments"], "")]) for one in (first, second)],
            {"calls": [first, second]},
        ),
        *(
            _form(b05, kind, _named(*names), b05.want)
            for kind, names in (("pieces", ("re", "ad")), ("growing", ("re", "read")))
        ),
        *(
            _form(a12, f"raw-{at}", [_delta(content="a\N{ESCAPE}b")], {"text": text}, raw)
            for at, (raw, text) in enumerate((("\x1b", "a\x1bb"), (r"\d", r"a\db"), ("\t", "a\tb")))
        ),
        *(
            _form(b16, name, [_delta(content=text[:9]), _delta(content=text[9:])], {"calls": [written], "text": said})
            for name, text, said in (
                ("tags", f"<tool_call>{json.dumps(written)}</tool_call>", ""),
                ("bare", json.dumps(written), ""),
                ("fenced", f"```json\n{json.dumps(written)}\n```", ""),
                ("in-reasoning", f"<think>I must.<tool_call>{json.dumps(written)}</tool_call>", ""),
                (
                    "behind-prose",
                    f"I must.<|channel|>commentary to=functions.read{json.dumps(written['arguments'])}",
                    "I must.",
                ),
            )
        ),
        _form(
            c08,
            "unclosed",
            [_delta(content="<think>\nI must.\n"), _delta(tool_calls=[read])],
            {"text": "", "reasoning": "I must.", "calls": [written]},
        ),
        _form(
            b16,
            "announced",
            [
                _delta(content="I will read it."),
                {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            ],
            {"retried_once": True},
        ),
        _form(e07, "quota", [{"choices": [], "error": no_credits}], {"error": {"code": "model_quota", **final}}),
        _form(e07, "key", [{"choices": [], "error": wrong_key}], {"error": {"code": "model_auth", **final}}),
        *(
            replace(e10, id=f"E10-{status}", response={**(e10.response or {}), "status": status})
            for status in range(520, 524)
        ),
    ]


def _form(case: Case, name: str, events: list[dict[str, Any]], want: dict[str, Any], escape: str = r"\u001b") -> Case:
    """Return a case whose stream has these events. Their JSON has `escape` in the place of the character ESCAPE."""
    lines = [f"data: {json.dumps(event)}\n\n".replace(r"\u001b", escape) for event in events]
    return replace(
        case,
        id=f"{case.id}-{name}",
        response={**(case.response or {}), "body_chunks": [*lines, "data: [DONE]\n\n"]},
        want=want,
    )


def _delta(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def _named(*pieces: str) -> list[dict[str, Any]]:
    """A call whose name comes in these pieces, and then its arguments."""
    functions = [*({"name": piece} for piece in pieces), {"arguments": '{"path": "a.txt"}'}]
    first, *more = [{"index": 0, "function": function} for function in functions]
    return [_delta(tool_calls=[call]) for call in ({**first, "id": "call_a"}, *more)]


def _call(name: str, arguments: dict[str, Any], call_id: str) -> dict[str, Any]:
    """A whole call, with the index that all of them have."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"index": 0, "id": call_id, "type": "function", "function": function}
