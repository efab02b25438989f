"""Mend the arguments of calls that say plainly what was meant. What was cut off is not mended."""

from __future__ import annotations

import json
import math
import re
from typing import Any, cast

from ...json_reader import JsonLimits, check_cost
from ...protocol import is_object

MAX_MENDED = 256 * 1024
"""Bytes; longer arguments are refused as they are: each attempt to mend them takes a multiple of that."""
_STRING = re.compile(r'"((?:[^"\\]++|\\.)*+)("?)', re.DOTALL)
"""A string, or what begins as one and has no end: matched up to the end of the text, or each quote in it would be tried
as another beginning."""
_WRONG_ESCAPE = re.compile(r'\\(?:(["\\/bfnrt]|u[0-9a-fA-F]{4})|(.)|$)', re.DOTALL)
_CLOSERS = re.compile(r"[\s}\]]*+(?:<[|/][^{}]*+)?+")
"""What may stand behind arguments that are whole: what closes the model's own notation."""
_LITERAL = re.compile(
    r""""(?:[^"\\]++|\\.)*+"?|'(?P<text>(?:[^'\\]++|\\.)*+)(?P<end>'?)|\b(?P<constant>True|False|None)\b"""
    r"""|,(?=\s*+[}\]])""",
    re.DOTALL,
)
"""What Python writes otherwise than JSON, and strings, which stay as they are; one without an end goes to the end."""
_QUOTES = re.compile(r"""\\(?P<escaped>.)|\"""", re.DOTALL)
_CONSTANTS = {"True": "true", "False": "false", "None": "null"}
ARGUMENT_LIMITS = JsonLimits(max_bytes=16 * 1024 * 1024, max_values=50_000, refuse_ambiguous=False)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:20]} is too large a number")
    return number


def _unambiguous(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("a key occurs twice in one object")
    return found


DECODER = json.JSONDecoder(  # noqa: TID251  the cost of the text is checked
    strict=False, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_unambiguous
)


def mend_arguments(text: str) -> dict[str, Any] | None:
    """Return the arguments that a text means, though it is not one JSON object; None if that is not certain.

    Mended are: an object that was encoded twice or stands alone in a list, `null`, an empty list or nothing for no
    arguments, control characters and wrong escapes inside strings, halves of surrogate pairs, a fence of Markdown
    around the object, a comma behind the last member, and quotes and constants as Python writes them.
    """
    if len(text) > MAX_MENDED or len(text.encode(errors="replace")) > MAX_MENDED:
        return None
    stripped = _without_fence(text.strip())
    if stripped in ("", "null", "None", '""', "[]"):
        return {}
    for candidate in (stripped, mend_escapes(stripped), python_as_json(stripped)):
        try:
            check_cost(candidate.encode(errors="replace"), ARGUMENT_LIMITS)
            value, end = DECODER.raw_decode(candidate)
            value = _without_lone_surrogates(value)
        except (ValueError, RecursionError):
            continue
        if not _CLOSERS.fullmatch(candidate, end):
            continue
        if is_object(value):
            return value
        alone = cast("list[Any]", value)[0] if isinstance(value, list) and len(cast("list[Any]", value)) == 1 else None
        if is_object(alone):
            return alone
        if isinstance(value, str) and value.strip()[:1] in ("{", ""):
            return mend_arguments(value) if value != text else None
    return None


def mend_escapes(text: str) -> str:
    """Return a JSON text with the escapes in its strings that JSON does not know as a backslash and what follows it."""
    return _STRING.sub(_mended_string, text)


def python_as_json(text: str) -> str:
    """Return a text with its strings and constants of Python as JSON has them."""
    return _LITERAL.sub(_as_json, mend_escapes(text))


def replace_lone_surrogates(text: str) -> str:
    """Replace the halves of surrogate pairs, which can be neither stored nor sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _without_lone_surrogates(value: Any) -> Any:
    """Return the value with them replaced in its strings and keys. Raises ValueError if two keys become one."""
    text = json.dumps(value, ensure_ascii=False)
    mended = replace_lone_surrogates(text)
    return value if mended == text else DECODER.decode(mended)


def _mended_string(found: re.Match[str]) -> str:
    if not found[2]:
        return found[0]
    return '"' + _WRONG_ESCAPE.sub(lambda one: one[0] if one[1] else "\\\\" + (one[2] or ""), found[1]) + '"'


def _as_json(found: re.Match[str]) -> str:
    if found["constant"]:
        return _CONSTANTS[found["constant"]]
    if found["end"]:
        return f'"{_QUOTES.sub(_json_quote, found["text"])}"'
    return "" if found[0] == "," else found[0]


def _json_quote(found: re.Match[str]) -> str:
    if found["escaped"]:
        return "'" if found["escaped"] == "'" else found[0]
    return '\\"'


def _without_fence(text: str) -> str:
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return text
    return text[3:-3].removeprefix("json").strip()
