"""Read the error in a body or an event, in the shapes in which providers and gateways write one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from ...json_reader import JsonLimits, read_json
from ...protocol import is_object
from ..whole_object import first_document

BODY_LIMITS = JsonLimits(max_bytes=64 * 1024)
"""A larger body is treated as plain text."""
DETAIL_CHARACTERS = 500
_TEXT_MEMBERS = (
    "message",
    "detail",
    "msg",
    "faultstring",
    "error_message",
    "error_msg",
    "errorMessage",
    "Message",
    "status_msg",
    "error",
    "title",
)
_CODES_OF_GATEWAYS = ("statusCode", "httpCode", "http_code", "http_status", "errorCode")
_CODE_MEMBERS = ("code", "type", "status", "status_code", "error_code", "error_type", "err_code", *_CODES_OF_GATEWAYS)
_INNER_MEMBERS = (
    "error",
    "errors",
    "base_resp",
    "detail",
    "details",
    "raw",
    "metadata",
    "data",
    "reason",
    "violations",
    "parameters",
)
_WORDED_MEMBERS = ("raw", "details", "errors")
"""Inner members that may be plain words: the error as the provider itself has written it."""
_REASON_MEMBERS = ("reason", "reasons", "quotaId", "quotaMetric")
_MAX_DEPTH = 8
_MOST_LISTED = 20
_EMPTY_REASONS = ("provider returned error", "upstream error", "bad request", "internal error", "unknown error")
_STATUS = re.compile(r"[45][0-9]{2}")
_WRITTEN = re.compile(r'(\A\s*+"|\{(?=\s*+")|\[(?=\s*+[\[{"]))')
"""Where JSON begins in a text: an object, a list, or all of it, coded once more."""
_CLOSING = {"{": "}", "[": "]", '"': '"'}
_FIELDS = re.compile(r"loc\W{1,10}?((?:\s{0,4}['\"]\w{1,100}['\"],?){1,20})")


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """What an error says."""

    message: str
    codes: frozenset[str] = frozenset()
    """All codes, types and statuses in it, in lower case."""
    status: int | None = None
    """The HTTP status that it names."""
    param: str = ""
    """The member of the request that it names."""
    words: str = ""
    """All that it says in words, in lower case; not the texts of the conversation that some errors quote."""
    details: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """All objects in it, the outer ones first."""


def read_error_body(body: bytes) -> ErrorReport:
    """Return what a body says. One that is not JSON is the message."""
    try:
        return read_error(read_json(first_document(body[: BODY_LIMITS.max_bytes + 1]), BODY_LIMITS))
    except ValueError:
        text = body[: 4 * DETAIL_CHARACTERS].decode("utf-8", "replace").strip()[:DETAIL_CHARACTERS]
        return ErrorReport(text or "no reason given", words=text.lower())


def read_error(value: Any) -> ErrorReport:
    """Return what an error says: the words of the provider itself, if a gateway has wrapped them."""
    if not value or (not is_object(value) and not isinstance(value, list)):
        text = str(value)[:DETAIL_CHARACTERS] if value else "no reason given"
        return ErrorReport(text, words=text.lower())
    found = tuple(_objects(value))
    messages = list(dict.fromkeys(text for one in found if (text := _message(one))))
    named = (one[name] for one in found for name in _CODE_MEMBERS if isinstance(one.get(name), str | int))
    codes = dict.fromkeys(str(code).lower() for code in named)  # in their order: the outer status counts
    statuses = [int(code) for code in codes if _STATUS.fullmatch(code)]
    param = next((one["param"] for one in found if isinstance(one.get("param"), str)), "")
    return ErrorReport(
        _joined(messages) or str(cast("object", value))[:DETAIL_CHARACTERS],
        frozenset(codes),
        statuses[0] if statuses else None,
        param,
        " ".join((*messages, *(str(one[name]) for one in found for name in _REASON_MEMBERS if name in one))).lower(),
        found,
    )


def _joined(messages: list[str]) -> str:
    """Return the first message, with the next one if the first says nothing by itself."""
    if not messages:
        return ""
    first = messages[0]
    says_nothing = first.strip().rstrip(".").lower() in _EMPTY_REASONS
    text = ": ".join(messages[:2]) if says_nothing else first
    return text[:DETAIL_CHARACTERS]


def _objects(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the objects of an error, the outer ones first, also those that are written as text."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        yield from _objects(_written(value), depth + 1)
    elif isinstance(value, list):
        for one in cast("list[Any]", value)[:_MOST_LISTED]:
            yield from _objects(one, depth + 1)
    elif is_object(value):
        yield value
        for name in (*_INNER_MEMBERS, "message"):
            if name in value:
                yield from tuple(_objects(value[name], depth + 1)) or _worded(name, value[name])


def _written(text: str) -> Any:
    """Return the JSON in a text that may have words before and behind it; None if there is no JSON."""
    found = _WRITTEN.search(text)
    if found is None:
        return None
    begin = found.end(1) - 1
    end = text.rfind(_CLOSING[text[begin]]) + 1
    try:
        return read_json(text[begin:end].encode(), BODY_LIMITS)
    except ValueError:
        return None


def _worded(name: str, value: Any) -> Iterator[dict[str, Any]]:
    """Yield plain words in an inner member as the object that would say them."""
    if name in _WORDED_MEMBERS:
        texts = cast("list[Any]", value)[:_MOST_LISTED] if isinstance(value, list) else [value]
        yield from ({"message": text} for text in texts if isinstance(text, str) and text.strip())


def _message(one: Mapping[str, Any]) -> str:
    for name in _TEXT_MEMBERS:
        text = one.get(name)
        if isinstance(text, str) and text.strip():
            return text.strip()
        if name in ("message", "detail") and isinstance(text, list) and text:
            return "; ".join(map(_validation_fault, cast("list[Any]", text)[:5]))
    return ""


def _validation_fault(fault: Any) -> str:
    """Return one fault of a validating server: the member and what is wrong with it."""
    if not is_object(fault):
        return str(fault)
    where = fault.get("loc")
    what = fault.get("msg") or fault.get("message")
    where_named = ".".join(map(str, cast("list[Any]", where))) if isinstance(where, list) else ""
    return f"{where_named}: {what}" if where_named else str(what or fault)


def named_fields(report: ErrorReport) -> set[str]:
    """Return the members of a request that validating servers name by their place."""
    names = set(re.findall(r"[A-Za-z_]\w*", report.param))
    for one in report.details:
        where = one.get("loc")
        if isinstance(where, list):
            names |= {str(step) for step in cast("list[Any]", where)}
    for places in _FIELDS.findall(report.message):
        names |= set(re.findall(r"\w+", places))
    return names - {"body", "__root__"}
