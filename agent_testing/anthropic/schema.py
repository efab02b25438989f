"""The shape of a request: what pydantic says about it is also how the API words it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import Refusal

_ToolName = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,128}$")]
_CallId = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$")]


class _Object(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class CacheControl(_Object):
    type: Literal["ephemeral"]
    ttl: Literal["5m", "1h"] | None = None


class _Cacheable(_Object):
    cache_control: CacheControl | None = None


class Text(_Cacheable):
    type: Literal["text"]
    text: str
    citations: list[Any] | None = None


class _Base64(_Object):
    type: Literal["base64"]
    media_type: Literal["image/jpeg", "image/png", "image/gif", "image/webp", "application/pdf"]
    data: Annotated[str, Field(min_length=1)]


class _Url(_Object):
    type: Literal["url"]
    url: Annotated[str, Field(pattern=r"^https://")]


class _PlainText(_Object):
    type: Literal["text"]
    media_type: Literal["text/plain"]
    data: str


class Image(_Cacheable):
    type: Literal["image"]
    source: Annotated[_Base64 | _Url, Field(discriminator="type")]


class Document(_Cacheable):
    type: Literal["document"]
    source: Annotated[_Base64 | _Url | _PlainText, Field(discriminator="type")]
    title: str | None = None
    context: str | None = None
    citations: dict[str, Any] | None = None


class Thinking(_Object):
    type: Literal["thinking"]
    thinking: str
    signature: str


class RedactedThinking(_Object):
    type: Literal["redacted_thinking"]
    data: str


class ToolUse(_Cacheable):
    type: Literal["tool_use"]
    id: _CallId
    name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,200}$")]
    input: dict[str, Any]
    caller: dict[str, Any] | None = None


class ToolResult(_Cacheable):
    type: Literal["tool_result"]
    tool_use_id: _CallId
    content: str | list[Annotated[Text | Image | Document, Field(discriminator="type")]] | None = None
    is_error: bool | None = None


Block = Annotated[
    Text | Image | Document | Thinking | RedactedThinking | ToolUse | ToolResult, Field(discriminator="type")
]


class Message(_Object):
    role: Literal["user", "assistant"]
    content: str | list[Block]

    @property
    def blocks(self) -> list[Block]:
        content = self.content
        return [Text(type="text", text=content)] if isinstance(content, str) else content


class _InputSchema(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)
    type: Literal["object"]
    properties: dict[str, Any] | None = None
    required: list[str] | None = None


class Tool(_Cacheable):
    name: _ToolName
    input_schema: _InputSchema
    description: str | None = None
    type: Literal["custom"] | None = None
    strict: bool | None = None
    eager_input_streaming: bool | None = None
    input_examples: list[dict[str, Any]] | None = None


class _Choice(_Object):
    type: Literal["auto", "any"]
    disable_parallel_tool_use: bool = False


class _ToolChoice(_Object):
    type: Literal["tool"]
    name: str
    disable_parallel_tool_use: bool = False


class _NoChoice(_Object):
    type: Literal["none"]


_Display = Literal["summarized", "omitted"] | None


class _BlockBinding(_Object):
    prefix_mismatch_behavior: Literal["error", "drop_block"] | None = None


class _Enabled(_Object):
    type: Literal["enabled"]
    block_binding: _BlockBinding | None = None
    budget_tokens: Annotated[int, Field(ge=1024)]
    display: _Display = None


class _Adaptive(_Object):
    type: Literal["adaptive"]
    block_binding: _BlockBinding | None = None
    display: _Display = None


class _Disabled(_Object):
    type: Literal["disabled"]


class _OutputConfig(_Object):
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
    format: dict[str, Any] | None = None


class _Metadata(_Object):
    user_id: Annotated[str, Field(max_length=256)] | None = None


class CountedRequest(_Object):
    """What `count_tokens` takes."""

    model: str
    messages: list[Message]
    system: str | list[Text] | None = None
    tools: list[Tool] | None = None
    tool_choice: Annotated[_Choice | _ToolChoice | _NoChoice, Field(discriminator="type")] | None = None
    thinking: Annotated[_Enabled | _Adaptive | _Disabled, Field(discriminator="type")] | None = None
    output_config: _OutputConfig | None = None
    cache_control: CacheControl | None = None


class MessagesRequest(CountedRequest):
    """What the Messages API takes; sampling parameters only in the API version 2023-06-01."""

    max_tokens: Annotated[int, Field(ge=1)]
    stream: bool = False
    stop_sequences: list[str] | None = None
    metadata: _Metadata | None = None
    service_tier: Literal["auto", "standard_only"] | None = None
    temperature: Annotated[float, Field(ge=0, le=1)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None


def read_request(fields: dict[str, Any], *, counted: bool) -> CountedRequest:
    """Return the request. Raises Refusal that names the first wrong field as the API does."""
    try:
        return (CountedRequest if counted else MessagesRequest).model_validate(fields)
    except ValidationError as error:
        # Of a union of a text and a list both are reported; what lies deepest is meant.
        found = max(error.errors(include_url=False, include_input=False), key=lambda one: len(one["loc"]))
        raise Refusal(f"{_path(found['loc'])}: {_words(found)}") from None


def _path(location: tuple[int | str, ...]) -> str:
    """Return the path without pydantic's names for the members of a union of a text and a list."""
    return ".".join(
        str(step) for step in location if not isinstance(step, str) or not step.startswith(("str", "list["))
    )


def _words(error: Any) -> str:
    if error["type"] == "union_tag_invalid":
        tags = error["ctx"]["expected_tags"]
        return f"Input tag '{error['ctx']['tag']}' found using 'type' does not match any of the expected tags: {tags}"
    return str(error["msg"])
