"""Newline-delimited JSON, parsed strictly (docs/protocols/mediation.md#22-framing)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from math import isinf
from typing import Any, NoReturn

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json  # noqa: TID251  lines have limits of their own

from ...json_cost import JsonLimits, JsonRefused, check_cost
from .control import Control
from .frames import FrameFault, printable_name

SOFT_LINE = 1 << 20
"""Default limit of a line in bytes."""
MAX_LINE = 16 << 20
"""The largest limit that can be set."""
HARD_FACTOR = 4
"""A line longer than this many times the limit ends the connection, because its sender ignores the protocol."""
MAX_BAD_LINES = 8
"""Most bad lines in a minute; one more ends the connection."""
MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Most values in a line. One may take two bytes of it, and a hundred of memory."""
_LIMITS = JsonLimits(MAX_LINE * HARD_FACTOR, MAX_VALUES, max_depth=MAX_VALUES)
"""The bytes are limited where lines are split, the depth where they are parsed."""
_BLANK = b" \t\r"
_EMPTY_LINES = re.compile(rb"[ \t\r\n]*\n")
MAX_EMPTY_BYTES = 64 << 10
"""Most bytes of consecutive empty lines; more count as a bad line."""
_NULL = b"null"
_LF, _QUOTE, _BACKSLASH, _SPACE = b'\n"\\ '


class FrameTooLarge(Exception):
    """A line is longer than the hard limit."""


class Lines:
    """Splits a byte stream into lines. It buffers at most one line up to the soft limit.

    Data after the last LF is an incomplete line, and is dropped when the stream ends.
    """

    def __init__(self, soft: int = SOFT_LINE) -> None:
        self.soft = soft
        self._kept = bytearray()
        self._length = 0
        """Bytes of the line so far, including those that were dropped."""
        self._too_long = False
        """Whether the line so far was over the limit of its time, and was dropped."""
        self._empty = 0
        """Bytes of empty lines since the last non-empty line."""

    def feed(self, data: bytes) -> Iterator[bytes | FrameFault]:
        """Yield the lines that are complete now, without line ends and empty lines. Exhaust it before the next call.

        A line that is too long, and too many empty lines, yield a FrameFault instead. Raises FrameTooLarge if a line
        exceeds the hard limit.
        """
        begin = 0
        while (end := data.find(_LF, begin)) >= 0:
            if data[begin] <= _SPACE and not self._length and (empty := _EMPTY_LINES.match(data, begin)):
                begin = empty.end()
                self._empty += empty.end() - empty.start()
                if self._empty > MAX_EMPTY_BYTES:
                    self._empty = 0
                    yield FrameFault("empty_lines", f"more than {MAX_EMPTY_BYTES} bytes of empty lines")
                continue
            self._empty = 0
            if self._length or end - begin > self.soft:
                self._add(data, begin, end)
                line = self._line()
            else:  # most lines come in one piece and need not be buffered
                line = _strip_line_end(data[begin:end])
            begin = end + 1
            if line is not None:
                yield line
        self._add(data, begin, len(data))

    def _add(self, data: bytes, begin: int, end: int) -> None:
        self._length += end - begin
        if self._length > self.soft * HARD_FACTOR:
            raise FrameTooLarge(f"a line is longer than {self.soft * HARD_FACTOR} bytes")
        self._too_long = self._too_long or self._length > self.soft
        if self._too_long:
            self._kept.clear()
        else:
            self._kept += memoryview(data)[begin:end]

    def _line(self) -> bytes | FrameFault | None:
        length = self._length
        too_long = self._too_long
        line = bytes(self._kept)
        self._length = 0
        self._too_long = False
        self._kept.clear()
        if too_long:
            return FrameFault("line_too_long", f"a line has {length} bytes, {self.soft} are allowed")
        return _strip_line_end(line)


def _strip_line_end(line: bytes) -> bytes | None:
    """Return the line without a CR at its end, or None if it is empty."""
    if line.endswith(b"}"):
        return line
    return line.removesuffix(b"\r") if line.strip(_BLANK) else None


def decode(line: bytes) -> dict[str, Any]:
    """Parse the JSON object of a line. Raises FrameFault for everything that two parsers could read differently,
    and for more than MAX_VALUES."""
    try:
        check_cost(line, _LIMITS)
    except JsonRefused as refusal:
        raise FrameFault(refusal.code, str(refusal)) from None
    value = _decode_fast(line)
    return value if value is not None else _decode_strict(line)


def _decode_fast(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line that is certainly valid, or None if the strict parser must decide.

    A line without escapes has two quotes for each string. If it has no more quotes than its object needs, no key is
    repeated.
    """
    if line.find(_BACKSLASH) >= 0:
        return None
    try:
        value: Any = from_json(line, allow_inf_nan=False)
        if _quotes((value,), MAX_DEPTH) == line.count(_QUOTE) and isinstance(value, dict):
            return value  # pyright: ignore[reportUnknownVariableType]  JSON objects have string keys
    except ValueError:
        pass
    return None


def _quotes(parts: Iterable[Any], levels: int) -> int:
    """Count the quotes around all strings and keys in these values. Raises ValueError if a number is too large, or the
    nesting is deeper than `levels`."""
    count = 0
    for part in parts:
        kind = type(part)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            count += 2
        elif kind is dict:
            if not levels:
                raise ValueError
            count += 2 * len(part) + _quotes(part.values(), levels - 1)
        elif kind is list:
            if not levels:
                raise ValueError
            count += _quotes(part, levels - 1)
        elif kind is float and isinf(part):
            raise ValueError
    return count


def _decode_strict(line: bytes) -> dict[str, Any]:
    """Return the object of a line. Raises FrameFault that says what is wrong with it."""
    if b"\0" in line:
        raise FrameFault("invalid_json", "the line holds a NUL byte")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise FrameFault("invalid_utf8", f"the line is not UTF-8 at byte {error.start}") from None
    try:
        value = _DECODER.decode(text)
    except FrameFault:
        raise
    except RecursionError:
        raise _too_deep() from None
    except ValueError as error:
        raise FrameFault("invalid_json", f"the line is no JSON: {error}"[:300]) from None
    if not isinstance(value, dict):
        raise FrameFault("not_an_object", f"the line holds {_named(value)}; a frame is a JSON object")
    if b"\\u" in line or line.count(b"{") + line.count(b"[") > MAX_DEPTH:
        _examine(value)
    return value  # pyright: ignore[reportUnknownVariableType]  JSON objects have string keys


def encode(frame: BaseModel | dict[str, Any]) -> bytes:
    """Encode a frame as one line. Fields that are None are left out."""
    if isinstance(frame, BaseModel):
        try:
            line = frame.__pydantic_serializer__.to_json(frame, exclude_none=True)
        except PydanticSerializationError:  # a lone surrogate
            line = _NULL
        if _NULL not in line:  # else it may be a number that JSON cannot express
            return (_with_name(frame, line) if isinstance(frame, Control) else line) + b"\n"
        value = frame.model_dump(mode="json", exclude_none=True)
        if isinstance(frame, Control):
            value = {"ctl": frame.ctl, **value}
    else:
        value = frame
    return _ENCODER.encode(value).encode("utf-8", "replace") + b"\n"


def _with_name(frame: Control, line: bytes) -> bytes:
    name = b'{"ctl":"%b"' % frame.ctl.encode()
    return b"%b}" % name if line == b"{}" else b"%b,%b" % (name, line[1:])


def _refuse_duplicate_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise FrameFault("duplicate_key", f"{printable_name(twice)}: occurs twice in one object")
    return value


def _no_number(name: str) -> NoReturn:
    raise FrameFault("invalid_json", f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise FrameFault("invalid_json", "a number is too large")
    return number


_DECODER = json.JSONDecoder(  # noqa: TID251  lines have limits of their own
    object_pairs_hook=_refuse_duplicate_keys, parse_constant=_no_number, parse_float=_finite
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _examine(value: Any) -> None:
    """Raise FrameFault if the value is nested too deep or has a lone surrogate, which only an escape can produce.

    Not recursive, so that deep nesting cannot overflow the stack.
    """
    level = [value]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise _too_deep()
        below: list[Any] = []
        for one in level:
            parts: Any = (*one, *one.values()) if isinstance(one, dict) else one
            for part in parts:
                if isinstance(part, dict | list):
                    below.append(part)
                elif isinstance(part, str):
                    _check_text(part)
        level = below


def _check_text(text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise FrameFault("invalid_utf8", "a string contains a lone surrogate") from None


def _too_deep() -> FrameFault:
    return FrameFault("too_deep", f"the frame is nested deeper than {MAX_DEPTH} levels")


def _named(value: Any) -> str:
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return "a string"
    return "true, false or null" if value is None or isinstance(value, bool) else "a number"
