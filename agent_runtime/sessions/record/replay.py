"""Turn recorded parts back into chunks, for the stream of a turn that is no longer in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from agent_common.protocol import chunks as c

from ..store.history import Message
from .approvals import APPROVAL_PART, approvals_shown
from .parts import shown_metadata, tool_name


def replay(reply: Message) -> Iterator[c.Chunk]:
    """Yield the chunks of a finished assistant message."""
    yield c.Start(messageId=reply.id, messageMetadata=shown_metadata(reply.metadata))
    yield from replay_parts(reply.parts)
    if any(part["type"] == "step-start" for part in reply.parts):
        yield c.FinishStep()
    yield from _end(reply.metadata)


def replay_parts(parts: Sequence[dict[str, Any]]) -> Iterator[c.Chunk]:
    """Yield the chunks of these parts; the last step stays open.

    The request for an approval comes after what is shown with it, which is recorded behind the call: as it came live.
    """
    open_step = False
    not_shown = set(approvals_shown(parts))
    held: dict[str, list[c.Chunk]] = {}
    """The chunks that wait for the part that an approval is shown with, by the id of the approval."""
    for index, part in enumerate(parts):
        if part["type"] == "step-start":
            if open_step:
                yield c.FinishStep()
            open_step = True
        yield from _part(part, f"{part['type']}-{index}")
        if part["type"] == APPROVAL_PART:
            not_shown.discard(part.get("id", ""))
            yield from held.pop(part.get("id", ""), ())
        elif (approval := _asked_approval(part)) in not_shown:
            held.setdefault(approval, []).extend(_after_input(part))
        else:
            yield from _after_input(part)


def _part(part: dict[str, Any], chunk_id: str) -> Iterator[c.Chunk]:
    match part["type"]:
        case "step-start":
            yield c.StartStep()
        case "text":
            yield c.TextStart(id=chunk_id)
            yield c.TextDelta(id=chunk_id, delta=part["text"])
            yield c.TextEnd(id=chunk_id, providerMetadata=part.get("providerMetadata"))
        case "reasoning":
            yield c.ReasoningStart(id=chunk_id)
            yield c.ReasoningDelta(id=chunk_id, delta=part["text"])
            yield c.ReasoningEnd(id=chunk_id, providerMetadata=part.get("providerMetadata"))
        case kind if kind.startswith("data-"):
            yield c.DataChunk(type=kind, data=part["data"], id=part.get("id"))
        case _ if _is_call(part):
            yield c.ToolInputAvailable(
                toolCallId=part["toolCallId"],
                toolName=tool_name(part) or "",
                input=part.get("input", {}),
                dynamic=_dynamic(part),
                providerExecuted=part.get("providerExecuted"),
                providerMetadata=part.get("callProviderMetadata"),
            )
        case _:
            return


def _is_call(part: dict[str, Any]) -> bool:
    return tool_name(part) is not None and part.get("toolCallId") is not None


def _dynamic(part: dict[str, Any]) -> Literal[True] | None:
    return True if part["type"] == "dynamic-tool" else None


def _asked_approval(part: dict[str, Any]) -> str | None:
    """Return the id of the approval for which a call asks or has asked in vain; the others are settled."""
    asked = "approval" in part and part["state"] in ("approval-requested", "output-denied")
    return part["approval"]["id"] if asked else None


def _after_input(part: dict[str, Any]) -> Iterator[c.Chunk]:
    """Yield what follows the input of a call; nothing for other parts."""
    if not _is_call(part):
        return
    call = part["toolCallId"]
    dynamic = _dynamic(part)
    if approval := _asked_approval(part):
        yield c.ToolApprovalRequest(approvalId=approval, toolCallId=call)
    if part["state"] == "output-available":
        yield c.ToolOutputAvailable(toolCallId=call, output=part["output"], dynamic=dynamic)
    elif part["state"] == "output-error":
        meta = part.get("toolMetadata")
        yield c.ToolOutputError(toolCallId=call, errorText=part["errorText"], toolMetadata=meta, dynamic=dynamic)
    elif part["state"] == "output-denied":
        yield c.ToolOutputDenied(toolCallId=call)


def _end(metadata: dict[str, Any]) -> Iterator[c.Chunk]:
    outcome: dict[str, Any] = metadata.get("outcome", {})
    if outcome.get("error_code") == "cancelled":
        yield c.Abort(reason=outcome.get("error"))
        return
    if metadata.get("finish_reason") == "error":
        yield c.ErrorChunk(errorText=outcome.get("error") or "the turn failed")
    yield c.Finish(finishReason=metadata.get("finish_reason"), messageMetadata=shown_metadata(metadata))
