"""Read the body of a chat request and keep only what is used of it: of the `messages` of `useChat`, the last one.

A page that was not told otherwise sends its whole conversation with every message. Old messages are passed over as
they come: they take no memory, and are neither parsed nor counted.
"""

from __future__ import annotations

import re

SHORT_BODY = 16 * 1024
"""Bytes of a body that are kept until it is known whether there are `messages` in it. Most bodies are shorter."""
MAX_TOKENS = 5_000_000
"""Strings, brackets and commas that are looked at in one body, so that reading it takes seconds at most."""
_TOKEN = re.compile(rb'["\[\]{},]')
_IN_STRING = re.compile(rb'["\\]')
_KEY = b'"messages"'
_LIST_DEPTH = 2
"""Nested objects and arrays around a message: the body and the list."""
_PARTS_KEY = b'"parts"'
_PARTS_DEPTH = 4
"""Nested objects and arrays around a part: the message and the list of its parts, too."""
_CALL = re.compile(rb',?\s*\{\s*"type"\s*:\s*"(?:tool-|dynamic-tool")')
"""How the AI SDK begins a tool call."""
_ANSWERED = re.compile(rb'"(?:approval-responded|tool-question|question)"')
"""What is in a tool call that may be an answer: to an approval, or to a question."""
_CALL_LEFT_OUT = b'{"type":"tool"}'


class TooManyTokens(Exception):
    """The body would take too long to read."""


class MessageTooLarge(Exception):
    """The last message is larger than a body may be."""


class LastMessageReader:
    """Takes a body piece by piece. `body` is the JSON document without all messages but the last one, and without
    the tool calls in this that answer nothing, once `finish` was called."""

    def __init__(self, message_limit: int, short_body: int = SHORT_BODY) -> None:
        """`message_limit`: most bytes of a message. A larger one is not kept, and a fault only if it is the last."""
        self.body = bytearray()
        self._message_limit = message_limit
        self._short_body = short_body
        self._short = True
        """Whether no more than a short body has come, which nobody has looked at yet."""
        self._depth = self._tokens = 0
        self._in_string = self._escaped = False
        self._in_messages = self._too_large = False
        self._list_at = 0
        """Where the list of messages begins in `body`, and so the current message with the comma before it."""
        self._in_parts = False
        self._part_at = 0
        """Where the current part of the message begins in `body`, with the comma before it."""

    def feed(self, piece: bytes) -> int:
        """Take a piece of the body. Return how many more bytes `body` has; negative if fewer.

        Raises TooManyTokens and MessageTooLarge.
        """
        before = len(self.body)
        if self._short:
            self.body += piece
            if len(self.body) > self._short_body:
                self._read_short()
        else:
            self._read(piece)
        return len(self.body) - before

    def finish(self) -> int:
        """Take note that the body is complete. Returns and raises as `feed`."""
        before = len(self.body)
        if self._short and _KEY in self.body:
            self._read_short()
        return len(self.body) - before

    def _read_short(self) -> None:
        piece = bytes(self.body)
        self.body = bytearray()
        self._short = False
        self._read(piece)

    def _read(self, piece: bytes) -> None:
        at = kept = 0
        while at < len(piece):
            if self._in_string:
                at = self._string_end(piece, at)
                continue
            found = _TOKEN.search(piece, at)
            if found is None:
                break
            at = found.end()
            self._tokens += 1
            token = piece[at - 1]
            if token == 0x22:  # a quote
                self._in_string = True
            elif token in b"[{":
                self._depth += 1
                if token == 0x5B and self._depth in (_LIST_DEPTH, _PARTS_DEPTH):
                    kept = self._keep(piece, kept, at)
                    self._begin_list()
            elif self._depth == self._list_depth:  # a comma after a message or part, or the end of their list
                kept = self._keep(piece, kept, at - 1)
                end = self._end_part if self._in_parts else self._end_message
                end(is_last=token != 0x2C)
            if token in b"]}":
                self._depth -= 1
        if self._tokens > MAX_TOKENS:
            raise TooManyTokens
        self._keep(piece, kept, len(piece))

    def _string_end(self, piece: bytes, at: int) -> int:
        """Return where the current string ends in the piece, or the piece itself."""
        while at < len(piece):
            if self._escaped:
                self._escaped = False
                at = at + 1
                continue
            found = _IN_STRING.search(piece, at)
            if found is None:
                return len(piece)
            at = found.end()
            self._escaped = found[0] == b"\\"
            if not self._escaped:
                self._in_string = False
                return at
        return at

    def _keep(self, piece: bytes, begin: int, end: int) -> int:
        """Keep a part of the piece, unless it belongs to a message that is too large. Return its end."""
        if not self._too_large:
            self.body += piece[begin:end]
            if self._in_messages and len(self.body) - self._list_at > self._message_limit:
                self._too_large = True
                del self.body[self._list_at :]
        return end

    def _begin_list(self) -> None:
        """Note whether the list that has just begun is the value of the key `messages`, or of `parts` in a message."""
        if self._depth == _LIST_DEPTH and not self._in_messages and self._is_value_of(_KEY):
            self._in_messages = True
            self._list_at = len(self.body)
        elif self._depth == _PARTS_DEPTH and self._in_messages and self._is_value_of(_PARTS_KEY):
            self._in_parts = True
            self._part_at = len(self.body)

    @property
    def _list_depth(self) -> int | None:
        """The depth of the innermost list that has begun, of parts or messages."""
        return _PARTS_DEPTH if self._in_parts else _LIST_DEPTH if self._in_messages else None

    def _is_value_of(self, key: bytes) -> bool:
        head = self.body[-64:-1].rstrip()
        return head.endswith(b":") and head[:-1].rstrip().endswith(key)

    def _end_part(self, *, is_last: bool) -> None:
        """Leave of a tool call that has just ended only that there was one, unless it may be an answer."""
        if not self._too_large:
            part = self.body[self._part_at :]
            if _CALL.match(part) and _ANSWERED.search(part) is None:
                self.body[self._part_at :] = (b"," if part.startswith(b",") else b"") + _CALL_LEFT_OUT
            self._part_at = len(self.body)
        self._in_parts = not is_last

    def _end_message(self, *, is_last: bool) -> None:
        """Throw away the message that has just ended, unless it is the last one: so `body` never has two of them."""
        if self._too_large and is_last:
            raise MessageTooLarge
        self.body[self._list_at :] = self.body[self._list_at :].lstrip(b", \t\r\n") if is_last else b""
        self._too_large = self._in_parts = False
        self._in_messages = not is_last
