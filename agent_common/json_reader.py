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
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from pydantic_core import from_json  # noqa: TID251  the cost is checked before

from .json_cost import JsonLimits, JsonRefused, check_cost, without_escapes

T = TypeVar("T")
INLINE_BYTES = 256 * 1024
"""Documents up to this size are parsed on the event loop and larger ones in a thread."""
_large_documents = ThreadPoolExecutor(max_workers=2, thread_name_prefix="large-json")
"""Two at a time: the objects of a large document take a multiple of its bytes."""


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
    if 2 * strings != without_escapes(data).count(b'"'):
        raise JsonRefused("duplicate_key", f"the key {_duplicate_key(data)!r} occurs twice in one object")


async def read_json_async(data: bytes, limits: JsonLimits) -> Any:
    """Do the same as `read_json`, in a thread when the document is large. Raises JsonRefused."""
    return await run_by_size(len(data), partial(read_json, data, limits))


async def run_by_size(size: int, work: Callable[[], T]) -> T:
    """Run `work` on a document of `size` bytes: at once when it is small, else in the thread for large ones."""
    if size <= INLINE_BYTES:
        return work()
    return await asyncio.get_running_loop().run_in_executor(_large_documents, work)


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
