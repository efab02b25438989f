"""The shape of a request and of its input items."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .errors import Refusal

_MOVED = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
    "functions": "tools",
}
_Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", max_length=64)]
_CallId = Annotated[str, Field(min_length=1, max_length=64)]


class _Object(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class Part(_Open):
    type: Literal["input_text", "input_image", "input_file", "output_text", "refusal"]


class Summary(_Object):
    type: Literal["summary_text"]
    text: str


class MessageItem(_Object):
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part]
    id: Annotated[str, Field(pattern="^msg")] | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    phase: Literal["commentary", "final_answer"] | None = None


class ReasoningItem(_Object):
    type: Literal["reasoning"]
    id: Annotated[str, Field(pattern="^rs")]
    summary: list[Summary]
    content: list[dict[str, Any]] | None = None
    encrypted_content: str | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class CallItem(_Object):
    type: Literal["function_call"]
    call_id: _CallId
    name: _Name
    arguments: str
    id: Annotated[str, Field(pattern="^fc")] | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


class OutputItem(_Object):
    type: Literal["function_call_output"]
    call_id: _CallId
    output: str | list[Part]
    id: Annotated[str, Field(pattern="^fc")] | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None


Item = MessageItem | ReasoningItem | CallItem | OutputItem
_ITEMS: dict[str, type[Item]] = {
    "message": MessageItem,
    "reasoning": ReasoningItem,
    "function_call": CallItem,
    "function_call_output": OutputItem,
}


class Tool(_Object):
    type: Literal["function"]
    name: _Name
    description: str | None = None
    parameters: dict[str, Any] | None
    strict: bool | None = None


class _NamedTool(_Object):
    type: Literal["function"]
    name: str


class _AllowedTools(_Object):
    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[_NamedTool]


class Reasoning(_Object):
    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    summary: Literal["auto", "concise", "detailed"] | None = None


class _TextConfig(_Object):
    format: dict[str, Any] | None = None
    verbosity: Literal["low", "medium", "high"] | None = None


class ResponsesRequest(_Object):
    """What the API takes, as far as the double knows it."""

    model: str
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    store: bool = True
    include: list[str] | None = None
    stream: bool | None = None
    max_output_tokens: Annotated[int, Field(ge=16)] | None = None
    tools: list[Tool] | None = None
    tool_choice: Literal["none", "auto", "required"] | _NamedTool | _AllowedTools | None = None
    parallel_tool_calls: bool | None = None
    reasoning: Reasoning | None = None
    text: _TextConfig | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None
    user: str | None = None
    safety_identifier: Annotated[str, Field(max_length=128)] | None = None
    prompt_cache_key: Annotated[str, Field(max_length=64)] | None = None
    service_tier: str | None = None
    truncation: Literal["auto", "disabled"] | None = None


def read_request(fields: dict[str, Any]) -> tuple[ResponsesRequest, list[Item]]:
    """Return the request and its items. Raises Refusal that names the first wrong parameter as the API does."""
    for name, other in _MOVED.items():
        if name in fields:
            raise Refusal(
                f"Unsupported parameter: '{name}'. In the Responses API, this parameter has moved to '{other}'. "
                "Try again with the new parameter.",
                name,
                "unsupported_parameter",
            )
    try:
        request = ResponsesRequest.model_validate(fields)
    except ValidationError as error:
        raise _refusal(error) from None
    given: list[dict[str, Any]] = (
        [{"role": "user", "content": request.input}] if isinstance(request.input, str) else request.input
    )
    return request, [_item(at, one) for at, one in enumerate(given)]


def _item(at: int, given: dict[str, Any]) -> Item:
    kind = given.get("type", "message")
    shape = _ITEMS.get(kind)
    if shape is None:
        raise Refusal(
            f"Invalid value: '{kind}'. Supported values are: {', '.join(_ITEMS)}.", f"input[{at}]", "invalid_value"
        )
    try:
        return shape.model_validate(given)
    except ValidationError as error:
        raise _refusal(error, f"input[{at}]") from None


def _refusal(error: ValidationError, before: str = "") -> Refusal:
    """Return the refusal of what lies deepest: of a union all members are reported."""
    found = max(error.errors(include_url=False), key=lambda one: len(one["loc"]))
    path = before
    for step in found["loc"]:
        if isinstance(step, int):
            path += f"[{step}]"
        elif step.isidentifier() and not step[0].isupper():
            path += f".{step}" if path else step
    value: Any = found["input"]
    limits: dict[str, Any] = dict(found.get("ctx") or {})
    match found["type"]:
        case "extra_forbidden":
            return Refusal(f"Unknown parameter: '{path}'.", path, "unknown_parameter")
        case "missing":
            return Refusal(f"Missing required parameter: '{path}'.", path, "missing_required_parameter")
        case "string_too_long":
            most = limits["max_length"]
            text = f"Expected a string with maximum length {most}, but got a string with length {len(value)} instead."
            return Refusal(f"Invalid '{path}': string too long. {text}", path, "string_above_max_length")
        case "string_pattern_mismatch" if path.endswith(".id"):
            prefix = limits["pattern"].removeprefix("^")
            text = f"Expected an ID that begins with '{prefix}'."
            return Refusal(f"Invalid '{path}': '{value}'. {text}", path, "invalid_value")
        case "string_pattern_mismatch":
            text = f"Expected a string that matches the pattern '{limits['pattern']}'."
            return Refusal(f"Invalid '{path}': string does not match pattern. {text}", path, "invalid_value")
        case "greater_than_equal":
            least = limits["ge"]
            text = f"integer below minimum value. Expected a value >= {least}, but got {value} instead."
            return Refusal(f"Invalid '{path}': {text}", path, "integer_below_min_value")
        case _:
            return Refusal(f"Invalid type or value for '{path}': {found['msg']}.", path, "invalid_value")
