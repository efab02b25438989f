"""Convert parts to provider messages, in one way for running turns and for sessions loaded from disk.

Equal bytes in both cases keep the provider's prompt cache valid across a restart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from agent_common.line_text import first_visible
from agent_common.protocol import is_object

from ..ports import OUTSIDE_TEXT_KEY, Note, ProviderFields
from ..sessions import INVALID_RESULT, NOTICE, RETRY, STEER, approval_id, approvals_shown, tool_name
from .notes import notes_block
from .provider_fields import kept_in
from .sanitize import escape_result_json, escape_text, wrap_data

PEOPLE_ONLY_METADATA = ("duration_ms", "transcript", "usage", "depth", OUTSIDE_TEXT_KEY)
RESULT_SOURCES = {
    "ask_agent": ("agent", "agent"),
    "bash": ("command", None),
    "call_service": ("web service", "service"),
    "claim": ("blackboard", "key"),
    "delegate": ("agent on the hub", "agent"),
    "get_artifact": ("artifact", "name"),
    "glob": ("names of files", None),
    "grep": ("files", None),
    "hand_off": ("agent", "agent"),
    "list_agents": ("cards of agents", None),
    "list_artifacts": ("artifacts", "prefix"),
    "list_blackboard": ("blackboard", "prefix"),
    "memory_search": ("memory", None),
    "peers": ("agents on the hub", None),
    "read": ("file", "path"),
    "read_blackboard": ("blackboard", "key"),
    "save_artifact": ("artifact", "name"),
    "sessions": ("session of the hub", "session"),
    "skill": ("skill package", "name"),
    "subscribe": ("topic", "topic"),
    "task": ("agent", "subagent_type"),
    "web_fetch": ("web page", "url"),
    "web_search": ("web search", None),
    "write_blackboard": ("blackboard", "key"),
}
"""Tool -> source of its results, and the argument that describes it further. Other tools are named as the source."""
TRUSTED_RESULT_TOOLS = frozenset({"edit", "learn", "memory_save", "question", "todo", "write"})
"""Tools whose results contain only text of the runtime or of the person who was asked."""
INVALID_NAME = "invalid_name"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
MAX_SOURCE_CHARACTERS = 200
"""Maximum characters of such an argument."""


@dataclass(slots=True)
class ToolCallRecord:
    """One tool call with its result."""

    id: str
    name: str
    input: Any
    output: Any = None
    """The envelope; None while there is no result."""
    approved: bool = False
    """Whether a person has approved it."""
    approved_for: tuple[str, ...] | None = None
    """The resources that it touched when the person was asked; None: not recorded."""
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
    """What is kept of its provider (`provider_fields`)."""


@dataclass(slots=True)
class Step:
    """One model call with its tool calls and their results."""

    text: str = ""
    calls: list[ToolCallRecord] = field(default_factory=list[ToolCallRecord])
    notices: list[str] = field(default_factory=list[str])
    """Messages to the model after the results, from the runtime or from a steering person."""
    rejected: bool = False
    """Whether it was a final answer that was not accepted; a notice says why."""
    reasoning: str = ""
    """The reasoning before the text; only the model that made it may be sent it."""
    kept: dict[str, Any] = field(default_factory=dict[str, Any])
    """What is kept of its provider with the text or the reasoning."""

    @property
    def open_calls(self) -> list[ToolCallRecord]:
        """The calls without a result."""
        return [call for call in self.calls if call.output is None]


def serialize_user_message(parts: Sequence[dict[str, Any]], notes: Sequence[Note] = ()) -> bytes:
    """Return a user message as the model sees it, with the notes below."""
    text = user_message_text(parts)
    return to_json({"role": "user", "content": f"{text}\n\n{notes_block(notes)}" if notes else text})


def user_message_text(parts: Sequence[dict[str, Any]]) -> str:
    """Return the escaped text of a user message."""
    return escape_text(user_text(parts))


def runtime_message_text(text: str) -> str:
    """Return a message of the runtime to the model in the middle of a turn."""
    return notes_block([Note("notice", text)])


SUMMARY_NOTICE = (
    "the conversation before this point is not shown any more; its summary follows, a record of what was said and done"
)
SKILLS_NOTICE = (
    "the instructions of these skill packages are not shown any more: {names}. Before you go on with what one of them "
    "is for, load it again, unless that was done below"
)
CUT_RESULT = "\n[the runtime has left out {left} characters here to make room]\n"


def serialize_summary(summary: str, skills: Sequence[str] = ()) -> bytes:
    """Return the message that replaces the messages which a compaction has left out. `skills` are the packages whose
    instructions were among them."""
    texts = [SUMMARY_NOTICE, *([SKILLS_NOTICE.format(names=", ".join(skills))] if skills else [])]
    notices = notes_block([Note("notice", text) for text in texts])
    return to_json({"role": "user", "content": f"{notices}\n\n{wrap_data('summary', summary)}"})


def user_text(parts: Sequence[dict[str, Any]]) -> str:
    """Return the text of a user message."""
    return "\n\n".join(part["text"] for part in parts if part["type"] == "text" and isinstance(part.get("text"), str))


def serialize_step(step: Step, kept_characters_of: Callable[[str], int | None] = lambda _: None) -> list[bytes]:
    """Return one step as provider messages: the assistant's, one per tool result, one per notice.

    `kept_characters_of` gives the characters to show of a call's result; None: all.
    """
    messages: list[dict[str, Any]] = []
    # Providers refuse messages without a visible character.
    text = "" if first_visible(step.text) is None else step.text
    if text or step.calls:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": _sent_name(call.name), "arguments": _arguments(call.input)},
            }
            for call in step.calls
        ]
        assistant = {"role": "assistant", "content": text or None}
        messages.append({**assistant, "tool_calls": calls} if calls else assistant)
    messages += [
        {"role": "tool", "tool_call_id": call.id, "content": _shortened(_result(call), kept_characters_of(call.id))}
        for call in step.calls
    ]
    messages += [{"role": "user", "content": notice} for notice in step.notices]
    return [to_json(message) for message in messages]


def fields_of(step: Step) -> ProviderFields | None:
    """Return all that a step keeps; None if it keeps nothing."""
    carriers = [step.kept, *(call.kept for call in step.calls)]
    models = [kept["model"] for kept in carriers if kept]
    if not models:
        return None
    own = [kept if kept and kept["model"] == models[-1] else {} for kept in carriers]
    none: dict[str, Any] = {}
    message = next((kept for kept in own if "message" in kept or "reasoning" in kept), none)
    member = message.get("reasoning")
    members = message.get("message")
    ids = {
        call.id: kept["id"] for call, kept in zip(step.calls, own[1:], strict=True) if isinstance(kept.get("id"), str)
    }
    return ProviderFields(
        models[-1],
        members if is_object(members) else {},
        (member, step.reasoning) if isinstance(member, str) and step.reasoning else None,
        tuple(kept["call"] if is_object(kept.get("call")) else {} for kept in own[1:]),
        ids,
    )


def steps_of(parts: Sequence[dict[str, Any]], reply_id: str = "") -> Iterator[Step]:
    """Yield the steps of a recorded assistant message, without interrupted model calls that were repeated.

    With `reply_id`, the id of the message, its calls that a person has approved are marked as such."""
    step = Step()
    shown = approvals_shown(parts) if reply_id else {}
    for part in parts:
        kind: str = part["type"]
        if kind == "step-start":
            yield step
            step = Step()
        elif kind == RETRY:
            step = Step()
        elif kind == "text":
            step.text += part["text"]
            step.kept = kept_in(part) or step.kept
        elif kind == "reasoning":
            step.reasoning += part["text"]
            step.kept = kept_in(part) or step.kept
        elif kind == NOTICE:
            step.notices.append(runtime_message_text(part["data"]["text"]))
            step.rejected = step.rejected or part["data"].get("reason") == INVALID_RESULT
        elif kind == STEER:
            if part["data"]["parts"]:
                step.notices.append(user_message_text(part["data"]["parts"]))
        elif (name := tool_name(part)) is not None:
            step.calls.append(_call_of(part, name, reply_id, shown))
    yield step


def _call_of(part: dict[str, Any], name: str, reply_id: str, shown: dict[str, dict[str, Any]]) -> ToolCallRecord:
    call = ToolCallRecord(part["toolCallId"], name, part.get("input", {}), _output(part))
    call.kept = kept_in(part)
    if reply_id and part["state"] == "approval-responded":
        _mark_approved(call, reply_id, part["approval"], shown)
    return call


def _mark_approved(
    call: ToolCallRecord, reply_id: str, answered: dict[str, Any], shown: dict[str, dict[str, Any]]
) -> None:
    """Mark the call as approved if the approval is of this very call, with these arguments."""
    about = shown.get(answered["id"], {})
    this_call = answered["id"] == approval_id(reply_id, call.id, call.name, call.input, about)
    call.approved = this_call and answered.get("approved") is True
    touches = about.get("touches") if call.approved else None
    call.approved_for = tuple(touches) if touches is not None else None


def _result(call: ToolCallRecord) -> str:
    return escape_result_json(to_json(_sourced(call, _for_model(_answered(call)))).decode())


def _sourced(call: ToolCallRecord, envelope: object) -> object:
    """Return the envelope with the source of its content first, unless that is the runtime itself."""
    if not is_object(envelope) or call.name in TRUSTED_RESULT_TOOLS:
        return envelope
    kind, argument = RESULT_SOURCES.get(call.name, (f"tool {call.name}", None))
    what = call.input.get(argument) if argument is not None and is_object(call.input) else None
    source = f"{kind} {what[:MAX_SOURCE_CHARACTERS]}" if isinstance(what, str) else kind
    head = {"type": envelope["type"]} if "type" in envelope else {}
    return {**head, "source": source, **envelope}


def _sent_name(name: str) -> str:
    """Return a name that every provider takes. A model may have called a tool that cannot exist."""
    return name if _NAME.fullmatch(name) else INVALID_NAME


def _arguments(value: Any) -> str:
    """Wrap invalid arguments in an object, because providers accept nothing else."""
    return to_json(value if isinstance(value, dict) else {"invalid_arguments": value}).decode()


def _output(part: dict[str, Any]) -> Any:
    if part["state"] == "output-available":
        return part["output"]
    if part["state"] == "output-denied":
        approval: dict[str, Any] = part.get("approval") or {}
        return error_envelope(denied_text(approval.get("reason")))
    if part["state"] != "output-error":
        return None
    meta: dict[str, Any] = part.get("toolMetadata") or {}
    return error_envelope(part.get("errorText") or "no result", meta.get("metadata"))


def denied_text(reason: str | None) -> str:
    """Return the result of a call that a person has rejected."""
    return f"the person rejected this call: {reason}" if reason else "the person rejected this call"


def _shortened(text: str, max_characters: int | None) -> str:
    """Return the beginning and the end of a text."""
    if max_characters is None or len(text) <= max_characters:
        return text
    head = max_characters * 2 // 3
    return (
        text[:head] + CUT_RESULT.format(left=len(text) - max_characters) + text[len(text) - (max_characters - head) :]
    )


def _answered(call: ToolCallRecord) -> Any:
    return error_envelope("no result") if call.output is None else call.output


def error_envelope(text: str, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the result of a call that failed."""
    return {"type": "error", "error_text": text, "metadata": metadata or {}}


def _for_model(output: object) -> object:
    """Return the envelope without metadata for people, such as durations and transcripts, which would cost tokens."""
    if not is_object(output) or "metadata" not in output:
        return output
    rest = {key: value for key, value in output.items() if key != "metadata"}
    metadata = {key: value for key, value in output["metadata"].items() if key not in PEOPLE_ONLY_METADATA}
    return {**rest, "metadata": metadata}
