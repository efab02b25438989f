"""Find usage, errors and the end in an event stream as it passes, without parsing events that have none."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import to_json

from agent_common.completions import (
    EventSplitter,
    error_in,
    find_report,
    from_event,
    joined_report,
    latest_reason,
    read_event,
)
from agent_common.json_reader import INLINE_BYTES
from agent_common.protocol import Pricing, Usage

from ...errors import ModelError, ProviderFailed
from .usage import priced_usage, set_cost

# Quotes inside a JSON string are escaped, so text about usage does not match.
LONGEST_LINE = 8 * 1024 * 1024
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_REASON = re.compile(rb'"finish_reason"\s*:\s*"(?!(?i:null|none)?")([^"]{1,100})')
"""Some servers write no reason as a text."""
TOKEN = re.compile(
    rb'"(?:content|text|refusal|reasoning|reasoning_content|thinking|arguments|name)"\s*:\s*(?:"[^"]|\[\s*\{)'
)
"""What a stream has once it says something."""
_DONE = re.compile(rb"data:\s*\"?\[DONE\]")
_ERROR = re.compile(rb'"error"\s*:\s*[{\["t]|^error:', re.MULTILINE)
_ERROR_STATUS = re.compile(rb'"base_resp"\s*:\s*\{[^}]{0,200}"status_code"\s*:\s*-?[1-9]')
"""MiniMax's."""


class UsageFilter:
    """Takes bytes as they arrive and returns whole lines.

    With `pricing`, `usage.cost_usd` is added to the stream. `hidden` removes the last event that has only usage, for a
    client that has not asked for it.
    """

    def __init__(self, pricing: Pricing | None, *, hidden: bool) -> None:
        self._pricing = pricing
        self._hidden = hidden
        self._partial_line = bytearray()
        self._events = self._bytes = self._first_event_bytes = 0
        self._splitter = EventSplitter()
        """Reads, as the client does, the lines that may say more than a piece of an answer."""
        self._open = True
        """Whether the event that comes next may have begun, so that its lines are read in any case."""
        self._report: dict[str, Any] | None = None
        self.usage: Usage | None = None
        """The last usage seen; providers that report it more than once report running totals."""
        self.error: ModelError | None = None
        """The error that the stream holds."""
        self.reason: str | None = None
        """The finish reason, of several the one that counts."""
        self.complete = False
        """Whether the answer's end is certain; its usage may still follow."""
        self.answered = 0
        """Pieces that have said something since the answer was complete."""

    @property
    def tokens(self) -> int:
        """Estimated number of tokens so far: one for each event, more for events larger than the first."""
        return max(self._events, (self._bytes - self._events * self._first_event_bytes) // 4)

    def feed(self, data: bytes) -> bytes:
        """Add bytes, and return those to send to the client now. Raises ProviderFailed if a line is too long."""
        end = len(data) if data.endswith(b"\n") else max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end:
            self._buffer(data)
            return b""
        lines = data[:end]
        if self._partial_line:
            lines = bytes(self._partial_line) + lines
            self._partial_line.clear()
        if end < len(data):
            self._buffer(data[end:])
        return self._filter_lines(lines)

    def finish(self) -> bytes:
        """Return the rest, once the stream has ended, maybe without a line break."""
        rest = bytes(self._partial_line)
        self._partial_line.clear()
        passed = self._filter_lines(rest + b"\n")[:-1] if rest else b""
        for text in self._splitter.finish():
            self._count(self._event(text))
        return passed

    def _buffer(self, data: bytes) -> None:
        self._partial_line += data
        if len(self._partial_line) > LONGEST_LINE:
            raise ProviderFailed(f"a line of the provider's stream is longer than {LONGEST_LINE} bytes")

    def _filter_lines(self, lines: bytes) -> bytes:
        events = lines.count(b"data:") + (b"\n{" in lines or lines.startswith(b"{"))
        self._events += events
        self._bytes += len(lines)
        if not self._first_event_bytes:
            self._first_event_bytes = lines.find(b"\n\n") + 2 if b"\n\n" in lines else len(lines)
        if self.complete and TOKEN.search(lines):
            self.answered += 1
        if not self.complete and b"DONE" in lines:
            self.complete = _DONE.search(lines) is not None
        if b"finish" in lines and (reasons := _REASON.findall(lines)):
            for reason in reasons:
                self.reason = latest_reason(self.reason, reason.decode("utf-8", "replace"))
            self.complete = True
        closed = lines.endswith((b"\n\n", b"\r\n\r\n"))
        if closed and not self._open and not _may_say(lines, events):
            return lines
        passed = b"".join(map(self._filter_line, lines.splitlines(keepends=True)))
        self._open = not closed or self._splitter.form != "events"
        return passed

    def _filter_line(self, line: bytes) -> bytes:
        """Return a line as the client gets it. One that is not just one event passes as it came."""
        try:
            texts = list(self._splitter.feed(line))
        except ModelError as error:
            raise ProviderFailed(error.message) from error
        for text in texts:
            event = self._event(text)
            if (reported := self._count(event)) and line.startswith(b"data:") and line[5:].strip() == text:
                return self._with_cost(line, event, reported)
        return line

    def _event(self, text: bytes) -> dict[str, Any]:
        """Return an event as the client reads it, and note its error; nothing for a piece of an answer."""
        named = self._splitter.name == "error"
        if len(text) > INLINE_BYTES or not (named or _may_say(text, 1)):
            return {}
        try:
            event = read_event(text) or {}
        except ModelError as unreadable:
            self.error = unreadable if named else self.error
            return {}
        if (error := error_in(event, self._splitter.name)) is not None:
            self.error = from_event(error)
        return event

    def _count(self, event: dict[str, Any]) -> dict[str, Any] | None:
        """Note and return the usage that an event reports."""
        reported = find_report(event)
        if reported is not None:
            self._report = joined_report(self._report, reported)
            self.usage = priced_usage(self._report, self._pricing)
        return reported

    def _with_cost(self, line: bytes, event: dict[str, Any], reported: dict[str, Any]) -> bytes:
        if self._hidden and not event.get("choices"):
            return b""
        if self.usage is None or not set_cost(reported, self.usage.cost_usd):
            return line
        return b"data: " + to_json(event) + b"\n"


def _may_say(data: bytes, events: int) -> bool:
    """Whether so many events may report usage or an error, or have no choices. Nearly all of a stream are only pieces
    of an answer, which this alone looks at."""
    pieces = data.count(b'"choices":[{') or data.count(b'"choices": [{')
    if events > pieces:
        return True
    if b'"usage"' in data and _USAGE.search(data):
        return True
    if b"error" in data and _ERROR.search(data):
        return True
    return b"base_resp" in data and _ERROR_STATUS.search(data) is not None
