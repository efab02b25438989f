"""Put the calls of an answer together from their pieces, which providers number, name and repeat in many ways."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

from ...errors import ModelError
from ...json_reader import JsonRefused, check_cost, read_json
from ...protocol import is_object
from ..kept import KeptFields
from ..pieces import CallPiece, CallStarted, ToolCall
from ..whole_object import WholeObject
from .arguments import ARGUMENT_LIMITS, DECODER, replace_lone_surrogates

MAX_CALLS = 256
"""Maximum tool calls in one answer."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_INDEX = re.compile("[0-9]{1,9}")
_LEADING_MARKS = re.compile(
    "(?:<tool_call>|<function=)*+(?:<[|\uff5c][^|\uff5c]*+[|\uff5c]>)*+(?:function<\uff5ctool\u2581sep\uff5c>)?+"
)
_MARKS = re.compile("(?:<[|\uff5c/]|>|[\\r\\n]).*+", re.DOTALL)
_NUMBER = re.compile(r":\d++\Z")
_PREFIX = re.compile(r"\A(?:functions?|tools?|default_api)[.:]")
_RECIPIENT = re.compile(r"\bto=(?:functions\.)?([A-Za-z0-9_-]{1,64})")
"""The name in gpt-oss's head of a message."""
_LEADING = re.compile(r'\A(?:\s*+(?:\{\s*+\}|null|""|\[\s*+\]))+\s*+(?=\{)')
"""Placeholders in front of an object."""
_BLANKS = re.compile(r"\s*+")
_PLACEHOLDERS = ("{}", "null", '""', "[]")
_NOTHING = _PLACEHOLDERS[1:]
"""What says nothing behind the whole arguments. An object may be those of another call."""
_BROKEN = object()
_KNOWN = frozenset(("index", "id", "type", "function"))
_ARGUMENTS = ("arguments", "parameters", "input", "args")
"""Names under which they come; the first that is there counts."""
_KNOWN_OF_FUNCTION = frozenset(("name", *_ARGUMENTS))


def clean_name(name: str) -> str:
    """Return the name of a called tool without the marks of a model's own notation, if that leaves a possible one."""
    if _NAME.fullmatch(name):
        return name
    if recipient := _RECIPIENT.search(name):
        return recipient[1]
    name_and_marks = _LEADING_MARKS.sub("", name.strip(), count=1).strip()
    clean = _PREFIX.sub("", _NUMBER.sub("", _MARKS.sub("", name_and_marks).strip()))
    return clean if _NAME.fullmatch(clean) else name


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    raw_name: str = ""
    """The name as it came, with a model's own marks."""
    pieces: list[str] = field(default_factory=list[str])
    kept: KeptFields = field(default_factory=KeptFields)
    started: bool = False
    given: str = ""
    """The id of its last piece with a name."""
    ids_vary: bool = False
    """Whether its pieces with a name have come under more than one id."""
    _object: WholeObject = field(default_factory=WholeObject)
    """What the first `_looked_at` pieces say of the end of the arguments."""
    _looked_at: int = 0

    @property
    def complete(self) -> bool:
        """Whether the arguments so far are a whole object, valid or to be mended."""
        for piece in self.pieces[self._looked_at :]:
            self._object.feed(piece)
        self._looked_at = len(self.pieces)
        return self._object.closed

    @property
    def broken_off(self) -> bool:
        """Whether arguments have begun and are not complete."""
        return bool(self.pieces) and not self.complete

    def add_name(self, piece: str) -> None:
        """Take the name, a further piece of it, or all of it again, which some providers send as it grows. Once the
        arguments have begun, it is whole."""
        if not self.name or not (self.pieces or clean_name(piece) == self.name):
            self.raw_name = piece if piece.startswith(self.raw_name) else self.raw_name + piece
            self.name = clean_name(self.raw_name)

    def add(self, piece: str) -> None:
        """Take a piece of the arguments, or all of them again, which some providers send as they grow."""
        if piece.lstrip().startswith("{") and self.complete:
            before = _parsed("".join(self.pieces))
            if is_object(before) and _is_grown(before, _parsed(piece)):
                self.pieces.clear()
                self._object = WholeObject()
                self._looked_at = 0
        if piece.strip() in _NOTHING and self.complete:
            return
        self.pieces.append(piece)

    def wants(self, piece: str) -> bool:
        """Whether a piece that names no call may be the arguments of this one, or go on with them."""
        return not self.pieces or (bool(piece) and self.broken_off)


class CallAssembler:
    """Collects the calls of one answer."""

    def __init__(self, names: frozenset[str] = frozenset()) -> None:
        """`names`: those of the tools that may be called, if they are known."""
        self._names = names
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._ids: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._calls)

    def feed(self, delta: dict[str, Any], *, whole: bool = False) -> Iterator[CallStarted | CallPiece]:
        """Take one piece of a call, or a `whole` one. A call starts when its id and the whole of its name are known, at
        the latest in `finish`."""
        function = delta.get("function")
        function = _parsed(function) if isinstance(function, str) and function.startswith("{") else function
        function = function if is_object(function) else delta
        name = _text(function.get("name"))
        given = _text(delta.get("id"))
        arguments = next((function[name] for name in _ARGUMENTS if function.get(name) is not None), None)
        piece = _text(arguments) if arguments is None or isinstance(arguments, str) else json.dumps(arguments)
        name, given, piece = map(replace_lone_surrogates, (name, given, piece))
        known = len(self._calls)
        call = self._add(given) if whole else self._owner(_number(delta.get("index")), given, name, piece)
        if given and not call.id:
            call.id = given
            self._by_id.setdefault(given, call)
        if name:
            call.add_name(name)
        if name and given:
            call.ids_vary |= given != (call.given or given)
            call.given = given
        if len(delta) > len(_KNOWN & delta.keys()) or function.keys() - _KNOWN_OF_FUNCTION:
            _keep_fields(call, delta, function)
        if piece:
            call.add(piece)
        for earlier in self._calls[:-1] if len(self._calls) > known else ():
            yield from self._start_if_known(earlier)
        if call.started:
            yield from (CallPiece(call.id, piece),) if piece else ()
        elif whole or call.pieces or self._is_whole(call.name):
            yield from self._start_if_known(call)

    def finish(self) -> Iterator[CallStarted | CallPiece]:
        """Start the calls that have no id or no name. One that says nothing is none beside others, even with an id."""
        named = any(call.name for call in self._calls)
        self._calls = [call for call in self._calls if call.name or call.pieces or (call.id and not named)]
        for call in self._calls:
            if not call.started:
                yield from self._start(call)

    def calls(self) -> tuple[ToolCall, ...]:
        return tuple(ToolCall(call.id, call.name, _arguments(call.pieces), call.kept.fields) for call in self._calls)

    def _is_whole(self, name: str) -> bool:
        """Whether a name without arguments behind it is that of a tool, and no other tool's name goes on from it."""
        return [known for known in self._names if known.startswith(name)] == [name]

    def _start_if_known(self, call: _Call) -> Iterator[CallStarted | CallPiece]:
        if call.id and call.name and not call.started:
            yield from self._start(call)

    def _start(self, call: _Call) -> Iterator[CallStarted | CallPiece]:
        call.started = True
        call.id = self._unique(call.id or f"call_{self._calls.index(call)}")
        yield CallStarted(call.id, call.name)
        if call.pieces:
            yield CallPiece(call.id, "".join(call.pieces))

    def _owner(self, index: int | None, given: str, name: str, piece: str) -> _Call:
        """Return the call that a piece belongs to."""
        last = self._calls[-1] if self._calls else None
        by_id = self._by_id.get(given) if given else None
        if index is None:
            call = by_id or (last if not name or _continues(last, given, name, piece) else None)
        elif index in self._by_index:
            call = self._by_index[index]
            if by_id is not None and by_id is not call and not name:
                call = by_id
            elif last is not None and not last.pieces and not (name or given) and piece.strip() and call.complete:
                call = last
        else:
            waiting = last if not name and last is not None and last.wants(piece) else None
            call = (by_id if not name else None) or (waiting if not given else None)
            if call is None and last is not None and _goes_on(last, given, name, piece):
                call = last
        if call is not None and name and call.name and _is_another(call, given, name, piece):
            call = None
        if call is None:
            call = self._add(given)
        if index is not None:
            self._by_index[index] = call
        return call

    def _add(self, given: str) -> _Call:
        if len(self._calls) == MAX_CALLS:
            raise ModelError(f"the model's answer has more than {MAX_CALLS} tool calls")
        call = _Call()
        self._calls.append(call)
        if given:
            self._by_id[given] = call
        return call

    def _unique(self, call_id: str) -> str:
        """Return the id, made unique: some providers give every call of an answer the same one."""
        number = len(self._ids)
        unique = call_id
        while unique in self._ids:
            unique = f"{unique}_{number}"
        self._ids.add(unique)
        return unique


def _continues(last: _Call | None, given: str, name: str, piece: str) -> bool:
    """Whether a named piece without an index goes on with the last call: it names it, or repeats its name."""
    if last is None or not last.name:
        return last is not None
    begins = bool(piece) and not given and not last.pieces
    if clean_name(name) == last.name:
        return begins or last.broken_off
    return not (given or piece or last.pieces) and (bool(last.id) or name.startswith(last.raw_name))


def _goes_on(last: _Call, given: str, name: str, piece: str) -> bool:
    """Whether a piece with a new index belongs to the last call: it does not begin an object and does not name another
    call."""
    if not piece or piece.lstrip().startswith("{") or not last.broken_off:
        return False
    return not name or (bool(given) and given == last.id and clean_name(name) == last.name)


def _is_another(call: _Call, given: str, name: str, piece: str) -> bool:
    """Whether a named piece begins another call than the one that its index or its id means."""
    same_name = clean_name(name) == call.name
    other_id = bool(given and call.id and given != call.id)
    if other_id and not same_name:
        return True
    if not call.complete:
        return False
    if given and given == call.id and same_name:
        return _is_other_object(call, piece)
    if call.ids_vary and same_name and not piece:
        return False  # another id is no sign, and nothing begins
    return bool(given and given != call.id) or bool(piece) or not same_name


def _is_other_object(call: _Call, piece: str) -> bool:
    """Whether a piece is a whole object that is neither the one of a call, nor that one grown, nor comes in place of an
    empty one."""
    if not piece.lstrip().startswith("{"):
        return False
    before = _parsed("".join(call.pieces))
    new = _parsed(piece)
    if not (is_object(before) and is_object(new) and before and new):
        return False
    may_grow = clean_name(call.id) != call.name  # some give the tool's name for an id, to each of its calls
    return not _is_grown(before, new) if may_grow else before != new


def _is_grown(before: Any, new: Any) -> bool:
    """Whether a JSON value is an earlier one, or that one with more members, elements or characters."""
    if type(before) is not type(new):
        return False
    if is_object(before):
        return all(name in new and _is_grown(value, new[name]) for name, value in before.items())
    if isinstance(before, list):
        earlier = cast("list[Any]", before)
        return len(earlier) <= len(new) and all(map(_is_grown, earlier, new))
    return new.startswith(before) if isinstance(before, str) else before == new


def _keep_fields(call: _Call, delta: dict[str, Any], function: dict[str, Any]) -> None:
    """Keep the members of a piece that we do not know."""
    if function is delta:
        unknown = {name: value for name, value in delta.items() if name not in _KNOWN | _KNOWN_OF_FUNCTION}
    else:
        unknown = {name: value for name, value in delta.items() if name not in _KNOWN}
        inner = {name: value for name, value in function.items() if name not in _KNOWN_OF_FUNCTION}
        unknown |= {"function": inner} if inner else {}
    call.kept.merge(unknown)


def _arguments(pieces: list[str]) -> str:
    """Return the arguments of a call, once: some providers send a placeholder first, or all of them again."""
    text = "".join(pieces)
    if not text or _parses(text):
        return text
    if placeholders := _count_placeholders(pieces):
        return _arguments(pieces[placeholders:])
    if len(pieces) > 1 and all(later.startswith(earlier) for earlier, later in pairwise(pieces)):
        return pieces[-1]
    half = len(text) // 2
    return text[:half] if text[:half] == text[half:] else _last_of_equals(text)


def _last_of_equals(text: str) -> str:
    """Return the last of several objects in a text if all are equal; the text without placeholders if they are not."""
    text = _LEADING.sub("", text).strip()
    first = ""
    begin = 0
    end = 0
    try:
        check_cost(text.encode(errors="replace"), ARGUMENT_LIMITS)
        while end < len(text):
            begin = _BLANKS.match(text, end).end()  # pyright: ignore[reportOptionalMemberAccess]  it always matches
            value, end = DECODER.raw_decode(text, begin)
            dumped = json.dumps(value, sort_keys=True)
            first = first or dumped
            if not is_object(value) or dumped != first:
                return text
    except (ValueError, RecursionError):
        return text
    return text[begin:end]


def _count_placeholders(pieces: list[str]) -> int:
    """Return how many pieces at the beginning stand for arguments that come behind them."""
    count = 0
    follows = ""
    for at in range(len(pieces) - 1, -1, -1):
        count = count + 1 if follows == "{" and pieces[at].strip() in _PLACEHOLDERS else 0
        follows = pieces[at].lstrip()[:1] or follows
    return count


def _parses(text: str) -> bool:
    return _parsed(text) is not _BROKEN


def _parsed(text: str) -> object:
    """Return the JSON value in a text, or _BROKEN."""
    try:
        return read_json(text.encode(errors="replace"), ARGUMENT_LIMITS)
    except JsonRefused:
        return _BROKEN


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    """Return an index; some providers write it as text."""
    if type(value) is int:
        return value
    return int(value) if isinstance(value, str) and _INDEX.fullmatch(value) else None
