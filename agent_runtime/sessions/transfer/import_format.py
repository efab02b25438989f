"""Check an export before any row is written: every line, every column, and the references between lines."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, cast

from agent_common.json_reader import JsonLimits, JsonRefused, read_json
from agent_common.protocol import METADATA_BYTES, TITLE_CHARACTERS, Usage, is_object

from ...errors import InvalidRequest
from ..record.parts import NOTICE, STEER, tool_name
from ..store.fallbacks import read_fallbacks
from ..store.rows import dump

Line = dict[str, Any]
"""`{"type": ..., "data": {column: value}}`."""
SCHEMA_VERSION = 1
_METADATA_TIMES = ("hidden_at", "queued_at", "queue_enqueued_at", "queue_canceled_at", "steered_at")
_RULE = ("permission", "pattern", "action")
_LARGEST = 2**63
_LATEST = 2**53
_MOST_SPENT = 2**53
"""Tokens or US dollars of a session: with those of many turns more they are still a number that can be kept."""
_MOST_SPENT_AT_ONCE = 2**40
"""Those of one message. Those of all messages are summed."""
MAX_AHEAD_MS = 24 * 3600 * 1000
"""How far the times of an export may lie in the future, as clocks differ. A session with a later one would head every
list and never age."""
LINE = JsonLimits(max_bytes=64 * 2**20, max_values=400_000, max_depth=200)
"""Twice the size of the largest part that this program stores."""


class ImportFault(Exception):
    """The fault of a line."""


Check = Callable[[object], bool]


def _text(value: object) -> bool:
    return isinstance(value, str)


def _whole(value: object) -> bool:
    return type(value) is int and -_LARGEST <= value < _LARGEST


def _time(value: object) -> bool:
    return type(value) is int and 0 <= value < _LATEST


def _count(value: object) -> bool:
    return type(value) is int and abs(value) <= _MOST_SPENT


def _cost(value: object) -> bool:
    return type(value) in (int, float) and abs(cast("float", value)) <= _MOST_SPENT


def _or_null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _id(kind: str) -> Check:
    shape = re.compile(kind + r"_[0-9a-f]{12}[0-9A-Za-z]{14}")
    return lambda value: isinstance(value, str) and shape.fullmatch(value) is not None


_SES = _id("ses")
_MSG = _id("msg")
_PRT = _id("prt")
_TIMES = {"created_at": _time, "updated_at": _time}
_COUNTS = ("prompt_tokens", "completion_tokens", "reasoning_tokens", "cache_read", "cache_write", "total_tokens")
COLUMNS: dict[str, dict[str, Check]] = {
    "session": {
        "id": _SES,
        "agent": _text,
        "workspace_root": _or_null(_text),
        "model_json": _text,
        "parent_id": _or_null(_SES),
        "parent_message_id": _or_null(_MSG),
        "permissions_json": _text,
        "metadata_json": _text,
        **dict.fromkeys(_COUNTS, _count),
        "cost_usd": _cost,
        **_TIMES,
        "archived_at": _or_null(_time),
    },
    "message": {"id": _MSG, "session_id": _SES, "role": _text, "metadata_json": _text, **_TIMES},
    "part": {
        "id": _PRT,
        "message_id": _MSG,
        "session_id": _SES,
        "index": _whole,
        "type": _text,
        "data_json": _text,
        "tool_call_id": _or_null(_text),
        "tool_state": _or_null(_text),
        **_TIMES,
    },
    "prompt": {"digest": _text, "body": _text},
}
"""Kind of line -> its columns in the table's order, each with its check."""


def read_lines(file: BinaryIO, first: int = 1) -> Iterator[tuple[int, Line]]:
    """Yield number and content of each line; `first` is the number of the next one. Raises InvalidRequest for an
    invalid line."""
    for number, raw in enumerate(file, first):
        if not raw.strip():
            continue
        try:
            yield number, _read(raw)
        except ImportFault as fault:
            raise _refused(number, str(fault)) from fault


def _read(raw: bytes) -> Line:
    line = parse_json(raw)
    if not is_object(line) or line.keys() != {"type", "data"} or not is_object(line["data"]):
        raise ImportFault('must be {"type": ..., "data": {...}}')
    columns = COLUMNS.get(line["type"]) if isinstance(line["type"], str) else None
    if columns is None:
        raise ImportFault(f"type: must be one of {', '.join(COLUMNS)}")
    for name in sorted(columns.keys() ^ line["data"].keys()):
        raise ImportFault(f"data.{name}: " + ("is missing" if name in columns else "there is no such column"))
    for name, right in columns.items():
        if not right(line["data"][name]):
            raise ImportFault(f"data.{name}: has the wrong type or shape")
    return line


def parse_json(raw: bytes | str) -> object:
    """Parse JSON within the limits. Raises ImportFault."""
    try:
        return read_json(raw.encode() if isinstance(raw, str) else raw, LINE)
    except JsonRefused as refusal:
        raise ImportFault(f"not JSON: {refusal}") from refusal


class SessionImport:
    """Checks one session's export: `add_line` for every line, then `finish`; both raise InvalidRequest."""

    def __init__(self, now: int) -> None:
        """`now`: epoch milliseconds."""
        self.session_id = ""
        self.principal = ""
        self.rules: list[str] = []
        """The session's own rules as `permission pattern action`: they hold only if the importer asks for it."""
        self._latest = now + MAX_AHEAD_MS
        self._digest = ""
        self._last = 0
        self._closed = False
        self._messages: set[str] = set()
        self._parts: set[str] = set()
        self._part_positions: set[tuple[str, int]] = set()

    def add_line(self, number: int, line: Line) -> None:
        self._last = number
        try:
            if self._closed:
                raise ImportFault("the session's own prompt must be the last line")
            if bool(self.session_id) == (line["type"] == "session"):
                raise ImportFault("the first line, and no other, must be the session")
            self._check_times(line["data"])
            {"session": self._session, "message": self._message, "part": self._part, "prompt": self._prompt}[
                line["type"]
            ](line["data"])
        except ImportFault as fault:
            raise _refused(number, str(fault)) from fault

    def finish(self) -> None:
        if not self._closed:
            raise _refused(self._last + 1, "the session's own prompt is missing: the export was cut off")

    def _session(self, data: Line) -> None:
        model = _object(data, "model_json")
        if not isinstance(model.get("model_id"), str):
            raise ImportFault("data.model_json: model_id is missing")
        if (rules := _rules(parse_json(data["permissions_json"]))) is None:
            raise ImportFault("data.permissions_json: must be a list of rules with permission, pattern and action")
        self.rules = rules
        metadata = _object(data, "metadata_json")
        for key in ("principal", "system_prompt_digest"):
            if not isinstance(metadata.get(key), str):
                raise ImportFault(f"data.metadata_json: {key} is missing")
        tools = metadata.get("tools")
        if not isinstance(tools, list) or not all(isinstance(name, str) for name in tools):  # pyright: ignore[reportUnknownVariableType]
            raise ImportFault("data.metadata_json: tools must be a list of names")
        for key, shape in (("title", str), ("custom", dict), ("packages", dict), ("briefs", dict)):
            if key in metadata and not isinstance(metadata[key], shape):
                raise ImportFault(f"data.metadata_json: {key} has the wrong type")
        if len(metadata.get("title", "")) > TITLE_CHARACTERS:
            raise ImportFault(f"data.metadata_json: title has more than {TITLE_CHARACTERS} characters")
        if len(dump(metadata.get("custom", {})).encode()) > METADATA_BYTES:  # nobody could change or fork the session
            raise ImportFault(f"data.metadata_json: custom has more than {METADATA_BYTES} bytes")
        self.session_id = data["id"]
        self.principal = metadata["principal"]
        self._digest = metadata["system_prompt_digest"]

    def _message(self, data: Line) -> None:
        self._check_session_id(data)
        if data["role"] not in ("user", "assistant"):
            raise ImportFault("data.role: must be user or assistant")
        metadata = _object(data, "metadata_json")
        try:
            _check_spent(Usage.model_validate(metadata.get("usage", {})))
        except ValueError as error:
            raise ImportFault("data.metadata_json: usage has the wrong shape") from error
        try:
            for usage in read_fallbacks(metadata).values():
                _check_spent(usage)
        except ValueError as error:
            raise ImportFault("data.metadata_json: fallbacks has the wrong shape") from error
        for key in _METADATA_TIMES:
            if key in metadata and not _time(metadata[key]):
                raise ImportFault(f"data.metadata_json: {key} must be a time")
        self._check_times({key: metadata[key] for key in _METADATA_TIMES if key in metadata})
        model = metadata.get("model", {})
        if not is_object(model) or not isinstance(model.get("model_id", ""), str):
            raise ImportFault("data.metadata_json: model has the wrong shape")
        _refuse_duplicate(data["id"], self._messages, "data.id")

    def _part(self, data: Line) -> None:
        self._check_session_id(data)
        if data["message_id"] not in self._messages:
            raise ImportFault("data.message_id: no such message before this line")
        part = _object(data, "data_json")
        if part.get("type") != data["type"]:
            raise ImportFault("data.type: differs from the type in data_json")
        if (fault := _part_fault(part)) is not None:
            raise ImportFault(f"data.data_json: {fault}")
        _refuse_duplicate(data["id"], self._parts, "data.id")
        _refuse_duplicate((data["message_id"], data["index"]), self._part_positions, "data.index")

    def _prompt(self, data: Line) -> None:
        if hashlib.sha256(data["body"].encode()).hexdigest() != data["digest"]:
            raise ImportFault("data.body: does not have that digest")
        self._closed = data["digest"] == self._digest

    def _check_times(self, data: Line) -> None:
        for name, value in data.items():
            if name.endswith("_at") and value is not None and value > self._latest:
                raise ImportFault(f"data.{name}: lies more than a day in the future")

    def _check_session_id(self, data: Line) -> None:
        if data["session_id"] != self.session_id:
            raise ImportFault("data.session_id: is not the session of the first line")


def _object(data: Line, column: str) -> dict[str, Any]:
    try:
        found = parse_json(data[column])
    except ImportFault as fault:
        raise ImportFault(f"data.{column}: {fault}") from fault
    if not is_object(found):
        raise ImportFault(f"data.{column}: must be an object")
    if _newer(found.get("schema_version", SCHEMA_VERSION)):
        raise ImportFault(f"data.{column}: schema_version is newer than this program")
    return found


def _check_spent(usage: Usage) -> None:
    """Raises ValueError for more than a message can have used."""
    if not all(abs(value or 0) <= _MOST_SPENT_AT_ONCE for value in usage.model_dump().values()):
        raise ValueError("it is too large")


def _newer(version: object) -> bool:
    return not _whole(version) or not isinstance(version, int) or version > SCHEMA_VERSION


def _refuse_duplicate(value: Any, seen: set[Any], what: str) -> None:
    if value in seen:
        raise ImportFault(f"{what}: appears twice")
    seen.add(value)


def _part_fault(part: dict[str, Any]) -> str | None:
    """Return the fault of a part in the fields that its readers use; None if it has none."""
    kind: str = part["type"]
    if kind in ("text", "reasoning"):
        return None if isinstance(part.get("text"), str) else "text is missing"
    if kind == NOTICE:
        data = part.get("data")
        return None if is_object(data) and isinstance(data.get("text"), str) else "data.text is missing"
    if kind == STEER:
        return None if _is_steer_data(part.get("data")) else "data.parts is missing"
    if kind == "dynamic-tool" and not isinstance(part.get("toolName"), str):
        return "toolName is missing"
    return None if tool_name(part) is None else _call_fault(part)


def _call_fault(part: dict[str, Any]) -> str | None:
    """Return the fault of a tool call's part; None if it has none."""
    if not isinstance(part.get("toolCallId"), str) or not isinstance(part.get("state"), str):
        return "toolCallId or state is missing"
    for name in ("approval", "toolMetadata"):
        if name in part and not is_object(part[name]):
            return f"{name} is no object"
    if not all(is_object(one) for one in _metadata_of(part)):
        return "metadata is no object"
    approval = part.get("approval")
    if part["state"].startswith("approval-") and not (is_object(approval) and isinstance(approval.get("id"), str)):
        return "approval.id is missing"
    return "output is missing" if part["state"] == "output-available" and "output" not in part else None


def _metadata_of(part: dict[str, Any]) -> Iterator[object]:
    """Yield the values that readers use as the metadata of a call's result."""
    for around in (part.get("toolMetadata"), part.get("output")):
        if is_object(around) and "metadata" in around:
            yield around["metadata"]


def _rules(value: object) -> list[str] | None:
    """Return the rules as lines; None for anything else."""
    rules = cast("list[object]", value) if isinstance(value, list) else [None]
    lines: list[str] = []
    for rule in rules:
        fields = [rule.get(name) for name in _RULE] if is_object(rule) else [None]
        if not all(isinstance(field, str) for field in fields):
            return None
        lines.append(" ".join(map(str, fields)))
    return lines


def _is_steer_data(data: object) -> bool:
    parts = data.get("parts") if is_object(data) else None
    return isinstance(parts, list) and all(is_object(one) and "type" in one for one in cast("list[object]", parts))


def _refused(number: int, fault: str) -> InvalidRequest:
    return InvalidRequest(f"line {number}: {fault}", faults=[(f"line {number}", fault)])
