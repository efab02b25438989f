"""Steps as JSON, and scripts made of them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from agent_testing import (
    Call,
    Drop,
    Fail,
    Garbage,
    Hang,
    Raw,
    Recorded,
    Say,
    Script,
    Step,
    step_from_json,
    step_to_json,
)

REQUEST = Recorded("POST", "/v1/chat/completions", (), b'{"messages": []}', 0.0)


@pytest.mark.parametrize(
    "step",
    [
        Say("hello", calls=(Call("read", {"path": "x"}), Call("read", "{")), pieces=("he", "llo"), usage={"n": 1}),
        Call("bash", {"command": "ls"}, text="looking"),
        Fail(429, retry_after=2.0),
        Drop(after=3, clean=True),
        Hang(after=1, reply=Say("x"), seconds=5),
        Garbage("}{", length=7),
        Raw(("a",), 520, {}, "latin-1", heartbeat=":"),
    ],
    ids=lambda step: type(step).__name__,
)
def test_every_step_survives_json(step: Step) -> None:
    assert step_from_json(step_to_json(step)) == step


def test_an_unknown_member_is_refused() -> None:
    with pytest.raises(ValidationError, match="txet"):
        step_from_json({"type": "say", "txet": "typo"})
    with pytest.raises(ValueError, match="setps"):
        Script().load({"setps": []})


def test_a_script_is_loaded_replaced_and_appended_to() -> None:
    script = Script()
    assert script.next(REQUEST) == Say("ok")
    script.load([{"type": "say", "text": "one"}])
    script.load({"append": True, "steps": [{"type": "say", "text": "two"}]})
    assert script.remaining == 2
    assert [script.next(REQUEST) for _ in range(2)] == [Say("one"), Say("two")]
    assert isinstance(script.next(REQUEST), Fail)
    script.load({"append": True})
    script.load({"otherwise": {"type": "say", "text": "always"}})
    assert script.next(REQUEST) == Say("always")
    script.load({})
    assert script.next(REQUEST) == Say("ok")
