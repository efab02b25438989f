"""Steps, by which the scripted provider answers requests; each has a JSON form.

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
    """A tool call in an answer; as a step of its own, an answer with just this call."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    arguments: dict[str, Any] | str = field(default_factory=dict[str, Any])
    """A string is sent unchanged, so it may be broken JSON."""
    text: str = ""
    """Text of the answer before the call."""
    id: str | None = None
    """The call's id; None: `call_` and a running number."""
    type: Literal["call"] = field(default="call", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Say:
    """An answer: reasoning, then text, then tool calls."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    text: str = ""
    calls: tuple[Call, ...] = ()
    pieces: tuple[str, ...] | None = None
    """The pieces of a stream, in place of `text`. None: each word with the spaces around it is a piece."""
    reasoning: str = ""
    usage: dict[str, Any] | None = None
    """Members that replace those of the counted OpenAI `usage` object, whose total stays their sum."""
    finish_reason: str | None = None
    """None: `tool_calls` if there are calls, else `stop`."""
    wait: float = 0.0
    """Seconds before the first piece, or before the whole answer if it is not streamed."""
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
    """The body in place of OpenAI's error body."""
    type: Literal["fail"] = field(default="fail", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Drop:
    """A connection that is lost after some pieces; after none, before any byte of the reply."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    after: int = 0
    reply: Say = field(default_factory=lambda: Say(_FILLER))
    clean: bool = False
    """Whether the stream ends properly and the connection is kept, but without a finish reason and `[DONE]`."""
    type: Literal["drop"] = field(default="drop", kw_only=True, repr=False)


@dataclass(frozen=True, slots=True)
class Hang:
    """A reply that stalls after some pieces until `release()` is called, then continues."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    after: int = 0
    reply: Say = field(default_factory=lambda: Say(_FILLER))
    seconds: float = 60.0
    """Seconds after which the connection is closed if it was not released."""
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


@dataclass(frozen=True, slots=True)
class Raw:
    """Any HTTP response, in the pieces in which it is sent."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    pieces: tuple[str, ...] = ()
    """The body. Each piece is a chunk of its own on the wire, or the whole is sent under the Content-Length that
    `headers` have."""
    status: int = 200
    """Any number of three digits, known to HTTP or not."""
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    encoding: Literal["utf-8", "latin-1"] = "utf-8"
    """`latin-1`: each character is one byte, for bodies that are not text."""
    wait: float = 0.0
    """Seconds before the status line."""
    delay: float = 0.0
    """Seconds between two pieces."""
    heartbeat: str | None = None
    """What is sent again and again behind the last piece, as the body never ends. None: it ends."""
    heartbeat_seconds: float = 5.0
    """Seconds between two heartbeats; after two minutes of them the connection is closed."""
    type: Literal["raw"] = field(default="raw", kw_only=True, repr=False)


Step = Say | Call | Fail | Drop | Hang | Garbage | Raw

_adapter: TypeAdapter[Step] = TypeAdapter(Annotated[Step, Field(discriminator="type")])


def step_from_json(value: Any) -> Step:
    """Return the step of a JSON form. Raises pydantic's ValidationError."""
    return _adapter.validate_python(value)


def step_to_json(step: Step) -> dict[str, Any]:
    """Return the JSON form of a step."""
    return _adapter.dump_python(step, mode="json", exclude_none=True)
