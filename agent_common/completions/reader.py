"""Read one answer of a model, streamed or whole, in OpenAI's dialect as providers really speak it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, cast

from pydantic_core import from_json  # noqa: TID251  reads small events only

from ..errors import ModelError
from ..json_reader import read_json
from ..protocol import Usage, is_object
from .calls.assembler import CallAssembler
from .calls.written import NotCalls, is_plain, read_calls_at_end, read_written_calls
from .content import REASONING_MEMBERS, called_in, detailed_reasoning, flatten, reasoning_of
from .damaged_json import EVENT_LIMITS, read_damaged
from .errors import failures
from .errors.places import error_in
from .events import DONE
from .finish_reasons import FAILED, NOT_YET, OVERFLOW, StopReason, latest_reason, stop_reason
from .kept import KeptFields, bounded
from .pieces import AnswerPiece, CallPiece, CallStarted, ReasoningPiece, TextPiece, ToolCall
from .thinking import TextChannel
from .usage import WRAPPERS, find_report, joined_report, read_usage

_KNOWN = frozenset(("role", "content", "tool_calls", "function_call", "refusal", "usage", *REASONING_MEMBERS))
"""Members of a delta or a message that are read; all others are kept as they are."""
_DONE_TEXTS = (DONE, b'"%b"' % DONE)
_COMMON = frozenset(("role", "content"))
_QUOTED = 300


def read_event(text: bytes) -> dict[str, Any] | None:
    """Return the event in a JSON text; None for the mark that ends a stream. Raises ModelError, final, with what came.

    Texts larger than json_reader.INLINE_BYTES are for a thread.
    """
    if text in _DONE_TEXTS:
        return None
    try:
        # A byte holds at most one value, and the parser limits nesting itself: small events need no prior count.
        small = len(text) <= EVENT_LIMITS.max_values
        event: Any = from_json(text, allow_inf_nan=False) if small else read_json(text, EVENT_LIMITS)
    except ValueError:
        event = _read_damaged(text)
    event = cast("dict[str, Any]", event) if type(event) is dict else _other_event(event, text)
    return event if "choices" in event else _unwrapped(event)


def _other_event(event: Any, text: bytes) -> dict[str, Any]:
    """Return what JSON says that is no object. Raises ModelError if it says nothing."""
    if isinstance(event, str):
        return {"title": event}  # the words of an event that is named as an error, and nothing in any other
    if event is None or isinstance(event, int | float):  # what some write to keep the connection open
        return {}
    if isinstance(event, list) and event:  # Gemini wraps its errors
        event = cast("list[Any]", event)[0]
    if not is_object(cast("object", event)):
        raise ModelError(f"the model's answer is not a completion: {_quote(text)}")
    return cast("dict[str, Any]", event)


class CompletionReader:
    """Collects one answer. `feed` its events, then `finish`, then read what it was."""

    def __init__(
        self, sent: int, *, thinking: bool = False, tools: bool = True, names: frozenset[str] = frozenset()
    ) -> None:
        """`sent`: bytes of the request, for providers that report no usage. `thinking`: the model is known to begin
        inside reasoning, without a mark. `tools`: whether it was offered tools. `names`: theirs, if they are known."""
        self._sent = sent
        self.received = 0
        """Characters of the answer so far."""
        self.finish_reason: str | None = None
        self.done = False
        """Whether the end has been marked."""
        self.model: str | None = None
        self.report: dict[str, Any] | None = None
        self.reasoning_member = ""
        """Under which name the reasoning came; `content` if it was a part of it."""
        self.progress = 0
        """Events so far that said something."""
        self._kept = KeptFields()
        self._text = TextChannel(thinking=thinking, calls=tools, names=names)
        self._calls = CallAssembler(names)
        self._names = names
        self._spoken = self._streamed = False

    def feed(self, event: dict[str, Any] | None, name: str = "") -> Iterable[AnswerPiece]:
        """Return what an event says; `name` is the event's own. Raises ModelError if it is an error."""
        if event is None:
            self.done = True
            return ()
        text = None if name else self._plain_text(event)
        if text is None:
            return self._event(event, name)
        return (TextPiece(text),) if text else ()

    def _plain_text(self, event: dict[str, Any]) -> str | None:
        """Return the text of an event that has nothing else, as nearly all have: hundreds in an answer. The first one
        is often empty."""
        try:
            (choice,) = event["choices"]
            delta = choice["delta"]
            text = delta["content"]
            plain = choice["finish_reason"] is None and (len(delta) == 1 or delta.keys() <= _COMMON)
        except (KeyError, TypeError, ValueError, AttributeError):
            return None
        if not plain or type(text) is not str or event.get("usage") or "error" in choice:
            return None
        if "error" in event or "x_groq" in event or "base_resp" in event:
            return None
        if "usage" in choice or not (self._text.passes(text) if text else "message" not in choice):
            return None
        self._spoken = self._streamed = True
        self.received += len(text)
        self.progress += text != ""
        return text

    def _event(self, event: dict[str, Any], name: str) -> Iterator[AnswerPiece]:
        error = error_in(event, name)
        if error is not None and not self.answered:
            raise failures.from_event(error)
        if (event.get("usage") or "x_groq" in event) and (report := find_report(event)):
            self.report = joined_report(self.report, report)
        if isinstance(model := event.get("model"), str) and model:
            self.model = model
        choices = event.get("choices")
        first = not self._spoken
        for choice in cast("list[Any]", choices) if isinstance(choices, list) and error is None else ():
            if is_object(choice):
                yield from self._choice(choice, first=first)

    def finish(self) -> Iterator[AnswerPiece]:
        """Yield the rest at the end of the answer. Raises ModelError if it is none."""
        if self.finish_reason is not None and (stop_reason(self.finish_reason) in (FAILED, OVERFLOW)):
            self._check_end(stop_reason(self.finish_reason))
        yield from self._written_calls()
        yield from self._text.finish(called=bool(self._calls), cut_off=self.stop_reason == "length")
        yield from self._calls.finish()

    @property
    def complete(self) -> bool:
        """Whether the end is certain; a usage report may still follow."""
        return self.finish_reason is not None or self.done

    @property
    def answered(self) -> bool:
        """Whether nothing that follows can spoil the answer: it is there and ended well, or the end is marked."""
        ended = self.finish_reason is not None and stop_reason(self.finish_reason) not in (FAILED, OVERFLOW)
        return self.done or (ended and not (self.empty and not self._text.written))

    @property
    def nothing(self) -> bool:
        """Whether no choice came at all."""
        return not self._spoken

    @property
    def empty(self) -> bool:
        """Whether it has no visible text and no call."""
        return self._text.silent and not self._calls

    @property
    def began_inside_reasoning(self) -> bool:
        """Whether an end of reasoning came without its beginning."""
        return self._text.thought_before_text

    @property
    def stop_reason(self) -> StopReason:
        stop = stop_reason(self.finish_reason or "stop")
        if stop == OVERFLOW:
            return "length"
        if stop == FAILED:
            return "other"
        return "tool-calls" if self._calls and stop == "stop" else stop

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return self._calls.calls()

    @property
    def fields(self) -> dict[str, Any]:
        """Members of the message that we do not know, with what is known as their provider sent it."""
        return bounded(self._kept.fields)

    @property
    def usage(self) -> Usage:
        """What the provider reports; without a report an estimate."""
        if self.report is None:
            return Usage.estimated_from_bytes(self._sent, self.received)
        return read_usage(self.report)

    def _choice(self, choice: dict[str, Any], *, first: bool) -> Iterator[AnswerPiece]:
        """Yield what a choice says; `first`: nothing came before its event."""
        delta = choice.get("delta")
        message = choice.get("message")
        if is_object(delta) and (_says(delta) or not is_object(message)):
            self._streamed = True
        else:
            delta = message if is_object(message) and not self._streamed else {}
            if (
                isinstance(text := choice.get("text"), str) and "content" not in delta
            ):  # as of completions without a chat
                delta = {**delta, "content": text}
        self._spoken = True
        reason = choice.get("finish_reason")
        ended = self.finish_reason is not None
        if isinstance(reason, str) and reason.lower() not in NOT_YET:
            self.finish_reason = latest_reason(self.finish_reason, reason)
        content = delta.get("content", "")
        if self.finish_reason is not None and not ended and type(content) is str and self._text.repeats(content):
            delta = {**delta, "content": ""}
            content = ""
        if content != "" or not delta.keys() <= _COMMON:
            yield from self._delta(delta, whole=first and not self._streamed and self.finish_reason is not None)
        if ("usage" in choice or "usage" in delta) and (report := find_report({"choices": [choice]})):
            self.report = joined_report(self.report, report)

    def _delta(self, delta: dict[str, Any], *, whole: bool) -> Iterator[AnswerPiece]:
        """Yield what a delta says, or a message; `whole`: each of its calls is one, and no piece."""
        self.progress += _says(delta)
        unknown = {name: value for name, value in delta.items() if name not in _KNOWN}
        if unknown:
            self._kept.merge(unknown)
        reasoning, member = reasoning_of(delta)
        if member:
            self.reasoning_member = member
        reasoning = reasoning or (detailed_reasoning(delta) if unknown and not self.reasoning_member else "")
        if reasoning:
            self.received += len(reasoning)
            yield ReasoningPiece(reasoning)
        for channel, text in (*flatten(delta.get("content")), *flatten(delta.get("refusal"))):
            if channel == "text":
                yield from self._text_pieces(text)
            else:
                self.reasoning_member = self.reasoning_member or "content"
                self.received += len(text)
                yield ReasoningPiece(text)
        for call in called_in(delta.get("content")):
            yield from self._called(self._calls.feed(call, whole=True))
        calls = delta.get("tool_calls")
        for call in cast("list[Any]", calls) if isinstance(calls, list) else [calls]:
            if is_object(call):
                yield from self._called(self._calls.feed(call, whole=whole))
        if is_object(legacy := delta.get("function_call")):
            yield from self._called(self._calls.feed({"index": 0, "function": legacy}))

    def _text_pieces(self, text: str) -> Iterator[AnswerPiece]:
        self.received += len(text)
        return self._text.feed(text)

    def _called(self, pieces: Iterator[CallStarted | CallPiece]) -> Iterator[AnswerPiece]:
        for piece in pieces:
            self.received += len(piece.name if isinstance(piece, CallStarted) else piece.text)
            yield piece

    def _written_calls(self) -> Iterator[AnswerPiece]:
        """Yield the calls in what was held back as calls in a model's own notation, or at the end of reasoning that has
        none. Beside calls that the server has read itself, they are the same ones."""
        if self._calls:
            self._text.drop_written()
        elif self.stop_reason != "length":
            for name, arguments in self._read_written() or read_calls_at_end(self._text.open_reasoning):
                yield from self._called(self._calls.feed({"function": {"name": name, "arguments": arguments}}))

    def _read_written(self) -> list[tuple[str, str]]:
        """Return the calls in what was held back, which is no text then. Raises ModelError if one of them is broken."""
        written = self._text.written
        unmarked = self._text.unmarked
        if not written:
            return []
        try:
            calls = read_written_calls(written, self._names if unmarked else None)
        except NotCalls as error:
            if is_plain(written, error, unmarked=unmarked, behind_text=not self._text.silent):
                return []
            words = f"the model wrote a call as text that cannot be read ({error}): {written[:_QUOTED]!r}"
            raise ModelError(words, transient=True) from None
        self._text.drop_written()
        return calls

    def _check_end(self, reason: Literal["failed", "overflow"] | StopReason) -> None:
        """Raise ModelError if the finish reason means that this is no answer."""
        ending = f"the model ended its answer with {self.finish_reason!r}"
        if reason == FAILED:
            raise ModelError(ending, transient=True)
        if self.empty and not self._text.written:
            raise ModelError(f"{ending}: the prompt is too long", code="context_overflow")


def _unwrapped(event: dict[str, Any]) -> dict[str, Any]:
    """Return the answer in an event that a gateway has put into one of its own."""
    inner = (event.get(name) for name in WRAPPERS)
    return next((one for one in inner if is_object(one) and "choices" in one), event)


def _says(delta: dict[str, Any]) -> bool:
    return any(value for name, value in delta.items() if name != "role")


def _read_damaged(text: bytes) -> Any:
    """Parse JSON that needs mending. What cannot be mended was damaged on its way, so it is worth a second attempt."""
    try:
        return read_damaged(text)
    except ValueError as why:
        words = f"the model's answer is not JSON ({why}): {_quote(text)}"
        raise ModelError(words, transient=True, attempts=2) from None


def _quote(text: bytes) -> str:
    return repr(text[:_QUOTED].decode("utf-8", "replace"))
