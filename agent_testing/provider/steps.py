"""What the scripted provider does with a request: a few small values that also have a JSON form.

In JSON every step is an object whose `type` is the class's name in lower case: `{"type": "say", "text": "hello"}`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter

_STRICT = ConfigDict(extra="forbid")
_FILLER = "one two three four five six seven eight nine ten"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; as a step of its own it is the whole answer."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict[str, Any])
    """A string is sent as it stands, so that it may be broken JSON."""
    text: str = ""
    """What the model says before it calls."""
    id: str | None = None
    """None: `call_` and a number that counts up."""
    type: Literal["call"] = field(default="call", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Say:
    """An answer: reasoning, then text, then tool calls."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    text: str = ""
    calls: tuple[Call, ...] = ()
    pieces: tuple[str, ...] | None = None
    """How the text is cut for a stream. None: a word with the blank behind it is a piece."""
    reasoning: str = ""
    usage: dict[str, Any] | None = None
    """Members that replace those of the counted OpenAI `usage` object."""
    finish_reason: str | None = None
    """None: `tool_calls` with calls, else `stop`."""
    wait: float = 0.0
    """Seconds before the first piece, or before the whole answer when it is not streamed."""
    delay: float = 0.0
    """Seconds between two pieces of a stream."""
    type: Literal["say"] = field(default="say", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Fail:
    """An HTTP error with OpenAI's error body."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    status: int = 500
    message: str = "scripted failure"
    code: str | None = None
    retry_after: float | str | None = None
    """Seconds, or an HTTP date, for the Retry-After header."""
    body: str | None = None
    """Replaces OpenAI's error body."""
    type: Literal["fail"] = field(default="fail", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is lost after some pieces; after none, before any byte of the reply."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    after: int = 0
    reply: Say = field(default_factory=lambda: Say(_FILLER))
    clean: bool = False
    """The stream ends as if it were whole, with the connection kept, but without a finish reason and `[DONE]`."""
    type: Literal["drop"] = field(default="drop", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Hang:
    """The reply stands still after some pieces until `release()` is called; then it goes on."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    after: int = 0
    reply: Say = field(default_factory=lambda: Say(_FILLER))
    seconds: float = 60.0
    """The longest it stands still; past that the connection is lost."""
    type: Literal["hang"] = field(default="hang", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Garbage:
    """Any bytes in place of a reply, with status 200."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    body: str = 'data: {"choices": [{"delta": {"conte\n\ndata: [DONE]\n\n'
    content_type: str = "text/event-stream"
    length: int | None = None
    """The Content-Length to claim, true or not; the connection closes after the body."""
    type: Literal["garbage"] = field(default="garbage", kw_only=True, repr=False)


Step = Say | Call | Fail | Drop | Hang | Garbage

_adapter: TypeAdapter[Step] = TypeAdapter(Annotated[Step, Field(discriminator="type")])


def step_from_json(value: Any) -> Step:
    """Reads a step from its JSON form. Raises pydantic's ValidationError."""
    return _adapter.validate_python(value)


def step_to_json(step: Step) -> dict[str, Any]:
    """The JSON form of a step."""
    return _adapter.dump_python(step, mode="json", exclude_none=True)
