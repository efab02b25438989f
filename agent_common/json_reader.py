"""Read JSON from untrusted sources, at a cost that is known before any of it is parsed.

Bytes do not bound the cost of JSON: 32 MiB of `{"":0},` become more than a gigabyte of objects, and parsing them keeps
the interpreter to itself for seconds. `read_json` therefore counts values first, with a few linear passes in C, and
refuses a document that has more than its reader expects. It also refuses what two readers may understand in two ways:
duplicate keys, numbers beyond the range of a float (`1e400`), NaN and Infinity, and unpaired surrogates.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic_core import from_json  # noqa: TID251  the cost is checked before

T = TypeVar("T")
INLINE_BYTES = 256 * 1024
"""Documents up to this size are parsed on the event loop and larger ones in a thread."""
_large_documents = ThreadPoolExecutor(max_workers=2, thread_name_prefix="large-json")
"""Two at a time: the objects of a large document take a multiple of its bytes."""
_BLOCK = 256 * 1024
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


def read_json(data: bytes, limits: JsonLimits) -> Any:
    """Return the value of a JSON document. Raises JsonRefused."""
    check_cost(data, limits)
    try:
        value: Any = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise _syntax_error(data, error) from None
    if limits.refuse_ambiguous:
        _check_unambiguous(data, value)
    return value


def _check_unambiguous(data: bytes, value: Any) -> None:
    """Raise JsonRefused for a duplicate key or an infinite number."""
    try:
        strings = _count_strings((value,))
    except _Infinite:
        raise JsonRefused("not_finite", "a number is too large for a 64-bit float") from None
    if 2 * strings != _without_escapes(data).count(b'"'):
        raise JsonRefused("duplicate_key", f"the key {_duplicate_key(data)!r} occurs twice in one object")


async def read_json_async(data: bytes, limits: JsonLimits) -> Any:
    """Do the same as `read_json`, in a thread when the document is large. Raises JsonRefused."""
    return await run_by_size(len(data), partial(read_json, data, limits))


async def run_by_size(size: int, work: Callable[[], T]) -> T:
    """Run `work` on a document of `size` bytes: at once when it is small, else in the thread for large ones."""
    if size <= INLINE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_large_documents, work)


def check_cost(data: bytes, limits: JsonLimits) -> None:
    """Raise JsonRefused if reading the document would exceed a limit. Takes linear time and parses nothing.

    The check is exact for valid JSON. For other input it may pass or refuse; parsing then fails within the limits.
    """
    if len(data) > limits.max_bytes:
        raise JsonRefused("too_large", f"the document has {len(data)} bytes; at most {limits.max_bytes} are allowed")
    if len(data) <= INLINE_BYTES:  # upper bounds that spare most documents the closer look
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
        parts = _without_escapes(block).translate(None, _NO_STRUCTURE).split(b'"')
        yield b"".join(parts[in_string::2])
        in_string = (in_string + len(parts) - 1) % 2
        begin += len(block)


def _without_escapes(data: bytes) -> bytes:
    """Remove escaped backslashes and escaped quotes: each quote that remains begins or ends a string."""
    if b"\\" not in data:
        return data
    return data.replace(rb"\\", b"").replace(rb"\"", b"")


class _Infinite(Exception):
    """A number is infinite."""


def _count_strings(values: Iterable[Any]) -> int:
    """Count strings and keys at every level. Raises _Infinite. The depth is known to be within limits."""
    count = 0
    for value in values:
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            count += 1
        elif kind is dict:
            count += len(value) + _count_strings(value.values())
        elif kind is list:
            count += _count_strings(value)
        elif kind is float and math.isinf(value):
            raise _Infinite
    return count


def _syntax_error(data: bytes, error: ValueError) -> JsonRefused:
    try:
        data.decode()
    except UnicodeDecodeError as fault:
        return JsonRefused("invalid_utf8", f"the document is not UTF-8 at byte {fault.start}")
    return JsonRefused("invalid_json", f"invalid JSON: {error}")


def _duplicate_key(data: bytes) -> str:
    """Find the first duplicate key, for the error's text."""
    found: list[str] = []

    def pairs(members: list[tuple[str, Any]]) -> None:
        names: set[str] = set()
        for name, _ in members:
            if name in names:
                found.append(name)
            names.add(name)

    json.loads(data, object_pairs_hook=pairs)  # noqa: TID251  it was parsed within limits before
    return found[0][:100] if found else ""
