"""Newline-delimited JSON, read with suspicion and written plainly (spec/mediation.md 2.2)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from math import isinf
from typing import Any, NoReturn, cast

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, from_json

from .control import Control
from .frames import FrameFault, shown

SOFT_LINE = 1 << 20
"""Bytes of a line unless something else is set."""
MAX_LINE = 16 << 20
"""The largest limit that can be set."""
HARD_FACTOR = 4
"""A line so many times as long as the limit ends the connection: whoever sends it does not keep to the rules."""
MOST_BAD_LINES = 8
"""In a minute; one more ends the connection."""
MOST_DEPTH = 64
_BLANK = b" \t\r"


class TooMuch(Exception):
    """A line has gone on beyond the hard limit."""


class Lines:
    """Cuts lines out of pieces of a stream. It holds at most one line below the soft limit, whatever comes.

    What stands behind the last LF when the stream ends was cut off and is no line: nobody asks for it.
    """

    def __init__(self, soft: int = SOFT_LINE) -> None:
        self.soft = soft
        self._kept = bytearray()
        self._length = 0
        """Bytes of the line so far, those included that were not kept."""

    def feed(self, data: bytes) -> Iterator[bytes | FrameFault]:
        """The lines that are whole now, without their ends and without empty ones; a fault stands where a line was too
        long. Raises TooMuch. The pieces must be read to the end before the next ones are fed."""
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            self._add(data, begin, end)
            begin = end + 1
            if (line := self._line()) is not None:
                yield line
        self._add(data, begin, len(data))

    def _add(self, data: bytes, begin: int, end: int) -> None:
        self._length += end - begin
        if self._length > self.soft * HARD_FACTOR:
            raise TooMuch(f"a line is longer than {self.soft * HARD_FACTOR} bytes")
        if self._length > self.soft:
            self._kept.clear()
        else:
            self._kept += memoryview(data)[begin:end]

    def _line(self) -> bytes | FrameFault | None:
        length, line = self._length, bytes(self._kept)
        self._length = 0
        self._kept.clear()
        if length > self.soft:
            return FrameFault("line_too_long", f"a line has {length} bytes, and {self.soft} are allowed")
        return line.removesuffix(b"\r") if line.strip(_BLANK) else None


def decode(line: bytes) -> dict[str, Any]:
    """The JSON object of a line. Raises FrameFault for everything that two readers could take for two things."""
    value = _plainly(line)
    return value if value is not None else _carefully(line)


def _plainly(line: bytes) -> dict[str, Any] | None:
    """The object of a line in which nothing can be wrong; None where it takes more to know. A line without escapes has
    two quotes for each string, so one that has no more than the object needs has no key twice."""
    if b"\\" in line or line.count(b"{") + line.count(b"[") > MOST_DEPTH:
        return None
    try:
        value: Any = from_json(line, allow_inf_nan=False)
        if isinstance(value, dict) and 2 * _strings([value]) == line.count(b'"'):
            return cast("dict[str, Any]", value)
    except ValueError:
        pass
    return None


def _strings(parts: Iterable[Any]) -> int:
    """How many there are, keys included. Raises ValueError for a number that is too large."""
    count = 0
    for part in parts:
        if isinstance(part, str):
            count += 1
        elif isinstance(part, dict):
            members = cast("dict[str, Any]", part)
            count += len(members) + _strings(members.values())
        elif isinstance(part, list):
            count += _strings(cast("list[Any]", part))
        elif isinstance(part, float) and isinf(part):
            raise ValueError
    return count


def _carefully(line: bytes) -> dict[str, Any]:
    """What is wrong with the line, or its object after all."""
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
    if b"\\u" in line or line.count(b"{") + line.count(b"[") > MOST_DEPTH:
        _examine(value)
    return value  # pyright: ignore[reportUnknownVariableType]  JSON objects have string keys


def encode(frame: BaseModel | dict[str, Any]) -> bytes:
    """A frame as one line. Fields that are None are left out: nobody takes them for something else."""
    if isinstance(frame, BaseModel):
        try:
            text = frame.model_dump_json(exclude_none=True)
        except PydanticSerializationError:  # half of a surrogate pair
            text = "null"
        if "null" not in text:  # else it may stand for a number that is none
            return (_with_name(frame, text) if isinstance(frame, Control) else text).encode() + b"\n"
        value = frame.model_dump(mode="json", exclude_none=True)
        if isinstance(frame, Control):
            value = {"ctl": frame.ctl, **value}
    else:
        value = frame
    return _ENCODER.encode(value).encode("utf-8", "replace") + b"\n"


def _with_name(frame: Control, text: str) -> str:
    name = f'{{"ctl":"{frame.ctl}"'
    return f"{name}}}" if text == "{}" else f"{name},{text[1:]}"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise FrameFault("duplicate_key", f"{shown(twice)}: stands twice in one object")
    return value


def _no_number(name: str) -> NoReturn:
    raise FrameFault("invalid_json", f"{name} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise FrameFault("invalid_json", "a number is too large")
    return number


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _examine(value: Any) -> None:
    """Depth, and halves of a UTF-16 pair, which only an escape can bring: neither can be passed on. No recursion."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > MOST_DEPTH:
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
            raise FrameFault("invalid_utf8", "a string holds half of a surrogate pair") from None


def _too_deep() -> FrameFault:
    return FrameFault("too_deep", f"the frame is nested deeper than {MOST_DEPTH} levels")


def _named(value: Any) -> str:
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        return "a string"
    return "true, false or null" if value is None or isinstance(value, bool) else "a number"
