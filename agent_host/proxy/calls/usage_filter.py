"""Find usage, errors and the end in an event stream as it passes, without parsing events that have none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic_core import to_json

from agent_common.completions import EventSplitter, error_in, find_report, from_event, joined_report
from agent_common.json_reader import INLINE_BYTES, JsonLimits, JsonRefused, read_json
from agent_common.protocol import Pricing, Usage

from ...errors import ModelError, ProviderFailed
from ..json_access import as_object
from .usage import priced_usage, set_cost

# Quotes inside a JSON string are escaped, so text about usage does not match.
LONGEST_LINE = 8 * 1024 * 1024
EVENT_LIMITS = JsonLimits(max_bytes=INLINE_BYTES)
"""A larger event is passed on without being parsed."""
_USAGE = re.compile(rb'"usage"\s*:\s*\{')
_REASON = re.compile(rb'"finish_reason"\s*:\s*"(?!(?i:null|none)?")([^"]{1,100})')
"""Some servers write no reason as a text."""
TOKEN = re.compile(
    rb'"(?:content|text|refusal|reasoning|reasoning_content|thinking|arguments|name)"\s*:\s*(?:"[^"]|\[\s*\{)'
)
"""What a stream has once it says something."""
_DONE = re.compile(rb"data:\s*\[DONE\]")
_ERROR = re.compile(rb'"error"\s*:\s*[{"]|^event:\s*error|^error:|"object"\s*:\s*"error"', re.MULTILINE)
_ERROR_STATUS = re.compile(rb'"base_resp"\s*:\s*\{[^}]{0,200}"status_code"\s*:\s*[1-9]')
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
        self._event_name = ""
        """The name of an error whose data has not come yet."""
        self._report: dict[str, Any] | None = None
        self.usage: Usage | None = None
        """The last usage seen; providers that report it more than once report running totals."""
        self.error: ModelError | None = None
        """The error that the stream holds."""
        self.reason: str | None = None
        """The finish reason that came last."""
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
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not end:
            self._buffer(data)
            return b""
        lines = bytes(self._partial_line) + data[:end]
        self._partial_line.clear()
        self._buffer(data[end:])
        return self._filter_lines(lines)

    def finish(self) -> bytes:
        """Return the rest, once the stream has ended without a line break."""
        rest = bytes(self._partial_line)
        self._partial_line.clear()
        return self._filter_lines(rest)

    def _buffer(self, data: bytes) -> None:
        self._partial_line += data
        if len(self._partial_line) > LONGEST_LINE:
            raise ProviderFailed(f"a line of the provider's stream is longer than {LONGEST_LINE} bytes")

    def _filter_lines(self, lines: bytes) -> bytes:
        self._events += lines.count(b"data:")
        self._bytes += len(lines)
        if not self._first_event_bytes:
            self._first_event_bytes = lines.find(b"\n\n") + 2 if b"\n\n" in lines else len(lines)
        if self.complete and TOKEN.search(lines):
            self.answered += 1
        if not self.complete and b"DONE" in lines:
            self.complete = _DONE.search(lines) is not None
        if b"finish" in lines and (reasons := _REASON.findall(lines)):
            self.reason, self.complete = reasons[-1].decode("utf-8", "replace"), True
        failed = (b"error" in lines and _ERROR.search(lines)) or (b"base_resp" in lines and _ERROR_STATUS.search(lines))
        if failed or self._event_name:
            self._read_errors(lines)
        if b'"usage"' not in lines or not _USAGE.search(lines):
            return lines
        return b"".join(self._filter_line(line) for line in lines.splitlines(keepends=True))

    def _filter_line(self, line: bytes) -> bytes:
        if not line.startswith(b"data:") or not _USAGE.search(line):
            return line
        try:
            event = as_object(read_json(line[5:], EVENT_LIMITS))
        except JsonRefused:
            return line
        reported = find_report(event)
        return self._read_event(line, event, reported) if reported else line

    def _read_errors(self, lines: bytes) -> None:
        """Note the error in these lines, as the client will read it."""
        for text, name in self._named_texts(lines):
            try:
                event = read_json(text, EVENT_LIMITS)
            except JsonRefused:
                continue
            if (error := error_in(as_object(event), name)) is not None:
                self.error = from_event(error)

    def _named_texts(self, lines: bytes) -> Iterator[tuple[bytes, str]]:
        """Yield the texts in these lines, each with the name of its event, which may have come before."""
        splitter = EventSplitter()
        splitter.form, splitter.name = "events", self._event_name
        yield from ((text, splitter.name) for text in splitter.feed(lines))
        self._event_name = splitter.name
        yield from ((text, splitter.name) for text in splitter.finish())

    def _read_event(self, line: bytes, event: dict[str, Any], reported: dict[str, Any]) -> bytes:
        self._report = joined_report(self._report, reported)
        self.usage = priced_usage(self._report, self._pricing)
        if self._hidden and not event.get("choices"):
            return b""
        if not set_cost(reported, self.usage.cost_usd):
            return line
        return b"data: " + to_json(event) + b"\n"
