"""The AI SDK v6 UI message chunks: the one internal stream (docs/protocols/chat.md).

Field names are the SDK's own, so that a chunk's JSON is its wire form. Unknown keys are kept; an unknown `type` is
refused, except for `data-*`.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter

from .base import is_object

# ruff: noqa: N815  the SDK's camelCase names are the wire

FinishReason = Literal["stop", "length", "content-filter", "tool-calls", "error", "other"]
DONE = b"data: [DONE]\n\n"
STREAM_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "connection": "keep-alive",
    "x-vercel-ai-ui-message-stream": "v1",
    "x-accel-buffering": "no",
}


class Chunk(BaseModel):
    """Base of all chunks, which `type` distinguishes."""

    model_config = ConfigDict(extra="allow", defer_build=True)

    def to_sse(self) -> bytes:
        """Encode the chunk as one server-sent event."""
        return b"data: " + self.__pydantic_serializer__.to_json(self, exclude_none=True) + b"\n\n"


class _Provided(Chunk):
    providerMetadata: dict[str, Any] | None = None


class _ToolMeta(_Provided):
    providerExecuted: bool | None = None
    toolMetadata: dict[str, Any] | None = None
    dynamic: bool | None = None


class Start(Chunk):
    type: Literal["start"] = "start"
    messageId: str | None = None
    messageMetadata: dict[str, Any] | None = None


class StartStep(Chunk):
    type: Literal["start-step"] = "start-step"


class TextStart(_Provided):
    type: Literal["text-start"] = "text-start"
    id: str


class TextDelta(_Provided):
    type: Literal["text-delta"] = "text-delta"
    id: str
    delta: str


class TextEnd(_Provided):
    type: Literal["text-end"] = "text-end"
    id: str


class ReasoningStart(_Provided):
    type: Literal["reasoning-start"] = "reasoning-start"
    id: str


class ReasoningDelta(_Provided):
    type: Literal["reasoning-delta"] = "reasoning-delta"
    id: str
    delta: str


class ReasoningEnd(_Provided):
    type: Literal["reasoning-end"] = "reasoning-end"
    id: str


class ToolInputStart(_ToolMeta):
    type: Literal["tool-input-start"] = "tool-input-start"
    toolCallId: str
    toolName: str
    inputEncoding: Literal["json", "text"] | None = None
    title: str | None = None


class ToolInputDelta(Chunk):
    type: Literal["tool-input-delta"] = "tool-input-delta"
    toolCallId: str
    inputTextDelta: str


class ToolInputAvailable(_ToolMeta):
    type: Literal["tool-input-available"] = "tool-input-available"
    toolCallId: str
    toolName: str
    input: Any
    title: str | None = None


class ToolInputError(_ToolMeta):
    type: Literal["tool-input-error"] = "tool-input-error"
    toolCallId: str
    toolName: str
    input: Any
    errorText: str
    title: str | None = None


class ToolApprovalRequest(Chunk):
    type: Literal["tool-approval-request"] = "tool-approval-request"
    approvalId: str
    toolCallId: str
    approvalDescriptor: Any = None
    inputSchemaInput: Any = None
    signature: str | None = None


class ToolOutputAvailable(_ToolMeta):
    type: Literal["tool-output-available"] = "tool-output-available"
    toolCallId: str
    output: Any
    preliminary: bool | None = None


class ToolOutputError(_ToolMeta):
    type: Literal["tool-output-error"] = "tool-output-error"
    toolCallId: str
    errorText: str

    def to_sse(self) -> bytes:
        """Encode the chunk without its metadata, which `ai` before 6.0.176 refuses. The recorded part has it."""
        body = self.__pydantic_serializer__.to_json(self, exclude_none=True, exclude={"toolMetadata"})
        return b"data: " + body + b"\n\n"


class ToolOutputDenied(Chunk):
    type: Literal["tool-output-denied"] = "tool-output-denied"
    toolCallId: str


class SourceUrl(_Provided):
    type: Literal["source-url"] = "source-url"
    sourceId: str
    url: str
    title: str | None = None


class SourceDocument(_Provided):
    type: Literal["source-document"] = "source-document"
    sourceId: str
    mediaType: str
    title: str
    filename: str | None = None


class FileChunk(_Provided):
    type: Literal["file"] = "file"
    url: str
    mediaType: str


class DataChunk(Chunk):
    type: str = Field(pattern=r"^data-.+")
    data: Any
    id: str | None = None
    transient: bool | None = None


class MessageMetadata(Chunk):
    type: Literal["message-metadata"] = "message-metadata"
    messageMetadata: dict[str, Any]


class ErrorChunk(Chunk):
    type: Literal["error"] = "error"
    errorText: str


class Abort(Chunk):
    type: Literal["abort"] = "abort"
    reason: str | None = None


class FinishStep(Chunk):
    type: Literal["finish-step"] = "finish-step"


class Finish(Chunk):
    type: Literal["finish"] = "finish"
    finishReason: FinishReason | None = None
    messageMetadata: dict[str, Any] | None = None


def _tag(value: Any) -> str:
    kind = str(value.get("type") if is_object(value) else getattr(value, "type", None))
    return "data" if kind.startswith("data-") else kind


AnyChunk = Annotated[
    Annotated[Start, Tag("start")]
    | Annotated[StartStep, Tag("start-step")]
    | Annotated[TextStart, Tag("text-start")]
    | Annotated[TextDelta, Tag("text-delta")]
    | Annotated[TextEnd, Tag("text-end")]
    | Annotated[ReasoningStart, Tag("reasoning-start")]
    | Annotated[ReasoningDelta, Tag("reasoning-delta")]
    | Annotated[ReasoningEnd, Tag("reasoning-end")]
    | Annotated[ToolInputStart, Tag("tool-input-start")]
    | Annotated[ToolInputDelta, Tag("tool-input-delta")]
    | Annotated[ToolInputAvailable, Tag("tool-input-available")]
    | Annotated[ToolInputError, Tag("tool-input-error")]
    | Annotated[ToolApprovalRequest, Tag("tool-approval-request")]
    | Annotated[ToolOutputAvailable, Tag("tool-output-available")]
    | Annotated[ToolOutputError, Tag("tool-output-error")]
    | Annotated[ToolOutputDenied, Tag("tool-output-denied")]
    | Annotated[SourceUrl, Tag("source-url")]
    | Annotated[SourceDocument, Tag("source-document")]
    | Annotated[FileChunk, Tag("file")]
    | Annotated[DataChunk, Tag("data")]
    | Annotated[MessageMetadata, Tag("message-metadata")]
    | Annotated[ErrorChunk, Tag("error")]
    | Annotated[Abort, Tag("abort")]
    | Annotated[FinishStep, Tag("finish-step")]
    | Annotated[Finish, Tag("finish")],
    Discriminator(_tag),
]


@cache
def chunk_adapter() -> TypeAdapter[AnyChunk]:
    """Return the parser of any chunk: `chunk_adapter().validate_json(data)`. Built on first use, as that is slow."""
    return TypeAdapter(AnyChunk)
