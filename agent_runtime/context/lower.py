"""Parts become provider messages: one lowering, used while a turn runs and when its session is read back.

That both ways give the same bytes is what keeps the provider's prompt cache warm across a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from ..protocol import is_object
from ..sessions import NOTICE, RETRY, STEER, tool_name


@dataclass(slots=True)
class Call:
    """One tool call with its answer."""

    id: str
    name: str
    input: Any
    output: Any = None
    """The envelope; none while there is no answer."""
    approved: bool = False
    """A person has allowed it."""


@dataclass(slots=True)
class Step:
    """One model call and what came of it."""

    text: str = ""
    calls: list[Call] = field(default_factory=list[Call])
    notices: list[str] = field(default_factory=list[str])
    """What the model is told behind the results: by the runtime, or by the person who steers."""

    @property
    def open(self) -> list[Call]:
        """The calls without an answer."""
        return [call for call in self.calls if call.output is None]


def lower_user(parts: Sequence[dict[str, Any]]) -> bytes:
    """A user message as the model sees it."""
    return to_json({"role": "user", "content": user_text(parts)})


def user_text(parts: Sequence[dict[str, Any]]) -> str:
    """What a user message says."""
    return "\n\n".join(part["text"] for part in parts if part["type"] == "text" and isinstance(part.get("text"), str))


def lower_step(step: Step) -> list[bytes]:
    """One step as provider messages: the assistant's, one per tool result, one per notice."""
    messages: list[dict[str, Any]] = []
    if step.text or step.calls:
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": _arguments(call.input)}}
            for call in step.calls
        ]
        assistant = {"role": "assistant", "content": step.text or None}
        messages.append({**assistant, "tool_calls": calls} if calls else assistant)
    messages += [
        {"role": "tool", "tool_call_id": call.id, "content": to_json(_for_model(_answered(call))).decode()}
        for call in step.calls
    ]
    messages += [{"role": "user", "content": notice} for notice in step.notices]
    return [to_json(message) for message in messages]


def steps_of(parts: Sequence[dict[str, Any]]) -> Iterator[Step]:
    """The steps of a recorded assistant message, without those that broke off and were made again."""
    step = Step()
    for part in parts:
        kind: str = part["type"]
        if kind == "step-start":
            yield step
            step = Step()
        elif kind == RETRY:
            step = Step()
        elif kind == "text":
            step.text += part["text"]
        elif kind == NOTICE:
            step.notices.append(part["data"]["text"])
        elif kind == STEER:
            if part["data"]["parts"]:
                step.notices.append(user_text(part["data"]["parts"]))
        elif (name := tool_name(part)) is not None:
            approved = part["state"] == "approval-responded" and part["approval"].get("approved") is True
            step.calls.append(Call(part["toolCallId"], name, part.get("input", {}), _output(part), approved))
    yield step


def _arguments(value: Any) -> str:
    """Providers refuse arguments that are not an object, so broken ones are shown inside of one."""
    return to_json(value if isinstance(value, dict) else {"invalid_arguments": value}).decode()


def _output(part: dict[str, Any]) -> Any:
    if part["state"] == "output-available":
        return part["output"]
    if part["state"] == "output-denied":
        approval: dict[str, Any] = part.get("approval") or {}
        return error_envelope(denied(approval.get("reason")))
    if part["state"] != "output-error":
        return None
    meta: dict[str, Any] = part.get("toolMetadata") or {}
    return error_envelope(part.get("errorText") or "no result", meta.get("metadata"))


def denied(reason: str | None) -> str:
    """What the model is told of a call that a person has rejected."""
    return f"the person rejected this call: {reason}" if reason else "the person rejected this call"


def _answered(call: Call) -> Any:
    return error_envelope("no result") if call.output is None else call.output


def error_envelope(text: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the model sees of a call that failed."""
    return {"type": "error", "error_text": text, "metadata": metadata or {}}


def _for_model(output: object) -> object:
    """The envelope without what only people need: a duration costs tokens and says nothing to the model."""
    if not is_object(output) or "metadata" not in output:
        return output
    rest = {key: value for key, value in output.items() if key != "metadata"}
    metadata = {key: value for key, value in output["metadata"].items() if key != "duration_ms"}
    return {**rest, "metadata": metadata} if metadata else rest
