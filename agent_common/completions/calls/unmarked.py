"""Tell from its beginning whether a text may be a call as plain JSON, as some servers leave it, and no other JSON."""

from __future__ import annotations

import re

from .assembler import clean_name
from .pythonic import BEGINS

NAME_MEMBERS = ("name", "tool_name", "tool")
ARGUMENT_MEMBERS = ("arguments", "parameters", "args", "input")
_MEMBERS = (*NAME_MEMBERS, *ARGUMENT_MEMBERS, "function", "type", "id")
"""What the first member of such an object may be. By its value some are known to be of another object."""
_KINDS = ("function", "function_call", "tool_call", "tool_use")
_MOST_UNDECIDED = 1024
"""Characters by which it is known, or the text is none."""
_OPENING = r"\s*+(?:```(?:json)?+\s*+)?+(?:\[\s*+)?+\{\s*+"
_FIRST_MEMBER = re.compile(_OPENING + r'"(?P<name>\w++)"\s*+:\s*+(?:"(?P<value>[^"]*+)"|[^\s"])')
_PART_OF_IT = re.compile(
    r"\s*+(?:`{1,3}+j?+s?+o?+n?+\s*+)?+(?:\[\s*+)?+"
    r'(?:\{\s*+(?:"(?P<name>\w*+)(?P<end>"\s*+(?::\s*+(?:"[^"]*+)?+)?+)?+)?+)?+'
)
_BROKEN_CALL = re.compile(
    rf'{_OPENING}"(?:{"|".join(NAME_MEMBERS)})"\s*+:\s*+"[^"]*+"\s*+,\s*+"(?:{"|".join(ARGUMENT_MEMBERS)})"\s*+:\s*+[{{"]'
)


def begins_unmarked_call(text: str, names: frozenset[str]) -> bool | None:
    """Return whether a text begins as a call of one of these tools does; None if that is not known yet."""
    first = _FIRST_MEMBER.match(text)
    if first is None:
        if python := BEGINS.match(text.lstrip()):
            known = clean_name(python["name"]) in names
            undecided = text.endswith(python["name"]) and any(name.startswith(python["name"]) for name in names)
            return known if python["called"] else (None if undecided else False)
        part = _PART_OF_IT.fullmatch(text) if len(text) <= _MOST_UNDECIDED else None
        if part is None or not _may_be_member(part["name"] or "", ended=bool(part["end"])):
            return False
        return None
    name = first["name"]
    value = first["value"]
    if name in NAME_MEMBERS:
        return value is not None and clean_name(value) in names
    if name == "type":
        return value in _KINDS
    if name == "id":
        return value is not None and value.startswith("call")
    return name in _MEMBERS


def is_broken_call(text: str) -> bool:
    """Return whether a text that begins so, and is no JSON, was meant as a call."""
    return _BROKEN_CALL.match(text) is not None


def _may_be_member(name: str, *, ended: bool) -> bool:
    return name in _MEMBERS if ended else any(member.startswith(name) for member in _MEMBERS)
