"""What JSON would cost its reader, counted before any of it is parsed, and what it takes once it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

_QUICK_BYTES = 256 * 1024
"""Up to this size, upper bounds spare most documents the closer look."""
_BLOCK = 256 * 1024
VALUE_BYTES = 100
"""What a value takes in memory, on the average of the densest JSON."""
_to_json = json.JSONEncoder(ensure_ascii=False).encode
_NO_STRUCTURE = bytes(set(range(256)) - set(b'"[]{},'))

Refusal = Literal[
    "too_large", "too_many_values", "too_deep", "duplicate_key", "not_finite", "invalid_utf8", "invalid_json"
]


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """What a document may cost its reader."""

    max_bytes: int
    max_values: int = 200_000
    """Objects, arrays and members of both, keys not counted. One value takes 50 to 500 bytes of memory."""
    max_depth: int = 100
    """Nested objects and arrays; the parser itself takes at most 200."""
    refuse_ambiguous: bool = True
    """Refuse duplicate keys and infinite numbers. It takes a look at every value, which costs more than the parsing:
    a reader of many small events that takes only a few texts of each leaves it out."""


class JsonRefused(ValueError):
    """The document is not valid JSON, or exceeds a limit. The text says which and is at most 300 characters long."""

    def __init__(self, code: Refusal, message: str) -> None:
        super().__init__(message[:300])
        self.code: Refusal = code


def check_cost(data: bytes, limits: JsonLimits) -> None:
    """Raise JsonRefused if reading the document would exceed a limit. Takes linear time and parses nothing.

    The check is exact for valid JSON. For other input it may pass or refuse; parsing then fails within the limits.
    """
    if len(data) > limits.max_bytes:
        raise JsonRefused("too_large", f"the document has {len(data)} bytes; at most {limits.max_bytes} are allowed")
    if len(data) <= _QUICK_BYTES:
        brackets = data.count(b"[") + data.count(b"{")
        few = len(data) // 2 <= limits.max_values or brackets + data.count(b",") <= limits.max_values
        if few and brackets <= limits.max_depth:
            return
    values = depth = 0
    for part in _structure(data):
        values += _opened(part)
        if values > limits.max_values:
            raise JsonRefused("too_many_values", f"the document has more than {limits.max_values} values")
        for character in part.translate(None, b","):
            depth += 1 if character in b"[{" else -1
            if depth > limits.max_depth:
                raise JsonRefused("too_deep", f"the document is nested more than {limits.max_depth} levels deep")


def count_values(data: bytes) -> int:
    """Return the number of values of a JSON document as `JsonLimits` counts them."""
    return sum(map(_opened, _structure(data)))


def memory_of(value: object) -> int:
    """Return about how many bytes of memory a JSON value takes."""
    text = _to_json(value)
    return memory_of_text(text) + VALUE_BYTES * count_values(text.encode(errors="replace"))


def memory_of_text(text: str) -> int:
    """Return about how many bytes of memory a text takes: a character beyond ASCII may widen all of it."""
    return len(text) * (1 if text.isascii() else 4)


def _opened(part: bytes) -> int:
    return len(part) - part.count(b"]") - part.count(b"}")


def _structure(data: bytes) -> Iterator[bytes]:
    """Yield the brackets and commas outside of strings. It works in blocks: each operation on bytes keeps the
    interpreter to itself, and other threads run in between."""
    in_string = begin = 0
    while begin < len(data):
        block = data[begin : begin + _BLOCK]
        if (len(block) - len(block.rstrip(b"\\"))) % 2:  # what the last backslash escapes belongs to it
            block = data[begin : begin + _BLOCK + 1]
        parts = without_escapes(block).translate(None, _NO_STRUCTURE).split(b'"')
        yield b"".join(parts[in_string::2])
        in_string = (in_string + len(parts) - 1) % 2
        begin += len(block)


def without_escapes(data: bytes) -> bytes:
    """Remove escaped backslashes and escaped quotes: each quote that remains begins or ends a string."""
    if b"\\" not in data:
        return data
    return data.replace(rb"\\", b"").replace(rb"\"", b"")
