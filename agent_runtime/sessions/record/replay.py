"""Turn recorded parts back into chunks, for the stream of a turn that is no longer in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agent_common.protocol import chunks as c

from ..store.history import Message
from .parts import shown_metadata, tool_name


def replay(reply: Message) -> Iterator[c.Chunk]:
    """Yield the chunks of a finished assistant message."""
    yield c.Start(messageId=reply.id, messageMetadata=shown_metadata(reply.metadata))
    yield from replay_parts(reply.parts)
    if any(part["type"] == "step-start" for part in reply.parts):
        yield c.FinishStep()
    yield from _end(reply.metadata)


def replay_parts(parts: Sequence[dict[str, Any]]) -> Iterator[c.Chunk]:
    """Yield the chunks of these parts; the last step stays open."""
    open_step = False
    for index, part in enumerate(parts):
        if part["type"] == "step-start":
            if open_step:
                yield c.FinishStep()
            open_step = True
        yield from _part(part, f"{part['type']}-{index}")


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
        case _:
            yield from _tool(part)


def _tool(part: dict[str, Any]) -> Iterator[c.Chunk]:
    name, call = tool_name(part), part.get("toolCallId")
    if name is None or call is None:
        return
    dynamic = True if part["type"] == "dynamic-tool" else None
    here = part.get("providerExecuted")
    yield c.ToolInputAvailable(
        toolCallId=call,
        toolName=name,
        input=part.get("input", {}),
        dynamic=dynamic,
        providerExecuted=here,
        providerMetadata=part.get("callProviderMetadata"),
    )
    if "approval" in part and part["state"] in ("approval-requested", "output-denied"):  # the others are settled
        yield c.ToolApprovalRequest(approvalId=part["approval"]["id"], toolCallId=call)
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
