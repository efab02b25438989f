"""Finds usage in an event stream that passes by, and opens no event that carries none."""

from __future__ import annotations

import re
from typing import Any

from pydantic_core import to_json

from agent_common.json_reader import INLINE_BYTES, JsonLimits, JsonRefused, read_json
from agent_common.protocol import Pricing, Usage

from ...errors import ProviderFailed
from ..json_access import members
from .usage import read_usage

# Inside a JSON string the quotes would be escaped, so text that speaks of usage does not match.
LONGEST_LINE = 8 * 1024 * 1024
EVENT = JsonLimits(max_bytes=INLINE_BYTES)
"""A larger event is passed on unopened."""
_USAGE = re.compile(rb'"usage"\s*:\s*\{')


class UsageTap:
    """Bytes go in as they come and out by whole lines.

    `pricing` adds `usage.cost_usd` to what passes. `hidden` takes out the closing event of usage alone, which the
    client did not ask for.
    """

    def __init__(self, pricing: Pricing | None, *, hidden: bool) -> None:
        self._pricing = pricing
        self._hidden = hidden
        self._partial = bytearray()
        self._events = self._bytes = self._first = 0
        self.usage: Usage | None = None
        """The last usage seen; providers that report it more than once report running totals."""

    @property
    def tokens(self) -> int:
        """About how many tokens have passed: each event is one, or four bytes of what it has more than the first."""
        return max(self._events, (self._bytes - self._events * self._first) // 4)

    def feed(self, data: bytes) -> bytes:
        """What may go on to the client now. Raises ProviderFailed for a line without end."""
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return b""
        lines = bytes(self._partial) + data[:end]
        self._partial.clear()
        self._keep(data[end:])
        return self._passed(lines)

    def end(self) -> bytes:
        """What is left when the stream has ended without a line break."""
        rest = bytes(self._partial)
        self._partial.clear()
        return self._passed(rest)

    def _keep(self, data: bytes) -> None:
        self._partial += data
        if len(self._partial) > LONGEST_LINE:
            raise ProviderFailed(f"a line of the provider's stream is longer than {LONGEST_LINE} bytes")

    def _passed(self, lines: bytes) -> bytes:
        self._events += lines.count(b"data:")
        self._bytes += len(lines)
        if not self._first:
            self._first = lines.find(b"\n\n") + 2 if b"\n\n" in lines else len(lines)
        if b'"usage"' not in lines or not _USAGE.search(lines):
            return lines
        return b"".join(self._opened(line) for line in lines.splitlines(keepends=True))

    def _opened(self, line: bytes) -> bytes:
        if not line.startswith(b"data:") or not _USAGE.search(line):
            return line
        try:
            event = members(read_json(line[5:], EVENT))
        except JsonRefused:
            return line
        reported = members(event.get("usage"))
        return self._noted(line, event, reported) if reported else line

    def _noted(self, line: bytes, event: dict[str, Any], reported: dict[str, Any]) -> bytes:
        self.usage = read_usage(reported, self._pricing)
        if self._hidden and not event.get("choices"):
            return b""
        if self._pricing is None:
            return line
        reported["cost_usd"] = self.usage.cost_usd
        return b"data: " + to_json(event) + b"\n"
