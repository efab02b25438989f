"""The request body of the AI SDK's `useChat`: a new message, a message to regenerate or edit, or answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import Request
from pydantic import TypeAdapter, ValidationError

from agent_common.line_text import first_visible
from agent_common.protocol import ChatRequest, UIMessage, UseChatRequest, is_object

from ...errors import InvalidRequest
from ...loop import HumanAnswer, IncomingMessage
from ..dependencies import principal, user_in_header

_ANSWERS = TypeAdapter(list[list[str]])


def shape_of(body: Any) -> type[UseChatRequest | ChatRequest]:
    """Return the model for a body: `messages` distinguishes the AI SDK's shape from our own."""
    return UseChatRequest if isinstance(body, dict) and "messages" in body else ChatRequest


def speaker(request: Request, asked: UseChatRequest) -> str:
    """Return the principal of the header. A `user` among the extra keys of the body is the frontend's own, unless it
    contradicts the header: then InvalidRequest is raised."""
    named = (asked.model_extra or {}).get("user") if user_in_header(request) else None
    return principal(request, named if isinstance(named, str) else None)


def incoming(request: Request, asked: UseChatRequest) -> IncomingMessage:
    """Convert the last message to a user message. Its reply is regenerated if the body asks for that, or if it edits a
    message, which it then names."""
    last = asked.messages[-1]
    if last.role != "user":
        raise InvalidRequest("nothing to answer", faults=[("messages", "the last message must be the user's")])
    edited = asked.trigger == "submit-message" and asked.messageId is not None and asked.messageId == last.id
    return IncomingMessage(
        principal=speaker(request, asked),
        parts=_kept_parts(last),
        session=asked.id,
        message_id=last.id or None,
        agent=_agent(asked, last),
        on_busy=asked.on_busy,
        sender=asked.sender,
        regenerate=asked.trigger == "regenerate-message",
        is_edit=edited,
    )


def _agent(asked: UseChatRequest, last: UIMessage) -> str | None:
    """Return the agent that is to answer, named in the message's metadata or beside the messages; None if neither
    is."""
    metadata = last.metadata if is_object(last.metadata) else {}
    found = metadata.get("agent") or (asked.model_extra or {}).get("agent")
    if found is not None and not isinstance(found, str):
        raise InvalidRequest("the agent is not a name", faults=[("metadata.agent", "must be a string")])
    return found


def answers(asked: UseChatRequest) -> Iterator[HumanAnswer]:
    """Yield the answers in the parts of an assistant's message: approvals by their own ids, questions by their calls'.
    The message repeats parts that were answered before, whose ids are not open any more."""
    sender = asked.sender
    for part in asked.messages[-1].parts:
        call_id = part.get("toolCallId")
        approval = part.get("approval")
        if part.get("state") == "approval-responded" and is_object(approval):
            yield _decision(str(approval.get("id")), approval, asked)
        elif part.get("state") == "output-available" and isinstance(call_id, str):
            yield HumanAnswer(call_id, answers=_texts(part.get("output")), sender=sender)
        elif part.get("state") == "output-error" and isinstance(call_id, str):
            yield HumanAnswer(call_id, no_answer_reason=str(part.get("errorText") or "no answer"), sender=sender)


def _decision(id: str, approval: dict[str, Any], asked: UseChatRequest) -> HumanAnswer:
    """Return the answer to an approval. For what it holds is said beside the messages, and never in them: the parts of
    these were written by the agent."""
    given = approval.get("reason")
    reason = given if isinstance(given, str) else None
    if approval.get("approved") is not True:
        return HumanAnswer(id, decision="reject", reason=reason, sender=asked.sender)
    if (scope := asked.always.get(id)) is not None:
        return HumanAnswer(id, decision="always", scope=scope, reason=reason, sender=asked.sender)
    return HumanAnswer(id, decision="once", reason=reason, sender=asked.sender)


def _texts(output: Any) -> list[list[str]] | None:
    """Parse `{answers: [[...]]}`, `[[...]]`, or one plain text as the answer to one question; None if it is neither."""
    found = output.get("answers") if is_object(output) else output
    if isinstance(found, str):
        return [[found]]
    try:
        return _ANSWERS.validate_python([[one] if isinstance(one, str) else one for one in found or ()])
    except (TypeError, ValidationError):
        return None


def _kept_parts(message: UIMessage) -> list[dict[str, Any]]:
    parts = [_part(part) for part in message.parts]
    others = sorted({str(part.get("type")) for part, known in zip(message.parts, parts, strict=True) if known is None})
    if others:
        raise InvalidRequest(
            "only text is understood", faults=[("messages", f"unsupported parts: {', '.join(others)}")]
        )
    if not any(part["type"] == "text" for part in parts if part is not None):
        raise InvalidRequest("the message has no text", faults=[("messages", "the last message must have a text part")])
    if all(part["type"] == "text" and first_visible(part["text"]) is None for part in parts if part is not None):
        raise InvalidRequest("the message is blank", faults=[("messages", "the last message has nothing that shows")])
    return [part for part in parts if part is not None]


def _part(part: dict[str, Any]) -> dict[str, Any] | None:
    """Return a part as it is kept: text, or data of the page's own, which the model is not shown; None for others."""
    kind = part.get("type")
    if kind == "text":
        if not isinstance(part.get("text"), str):
            raise InvalidRequest(
                "a text part has no text", faults=[("messages", "the text of a part must be a string")]
            )
        return {"type": "text", "text": part["text"]}
    if isinstance(kind, str) and kind.startswith("data-"):
        return {
            "type": kind,
            **({"id": part["id"]} if isinstance(part.get("id"), str) else {}),
            "data": part.get("data"),
        }
    return None
