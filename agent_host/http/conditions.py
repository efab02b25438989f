"""The conditions of writes and reads: `If-Match` and `If-None-Match`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import InvalidRequest

MAX_CONDITION = 1000
"""Characters of a header."""
_TAG = re.compile(r'"?([0-9]{1,18})"?')


@dataclass(frozen=True, slots=True)
class Condition:
    """When a write is carried out, or what a reader has. Without any of these: always."""

    versions: frozenset[int] | None = None
    """Only if the entry has one of these versions."""
    must_exist: bool = False
    must_be_absent: bool = False

    def holds(self, version: int) -> bool:
        """Whether it holds for an entry of this version; 0: there is no entry."""
        if self.must_be_absent:
            return version == 0
        if self.must_exist:
            return version != 0
        return self.versions is None or (version != 0 and version in self.versions)


ALWAYS = Condition()


def parse_condition(if_match: str | None, if_none_match: str | None) -> Condition:
    """Return the condition of the headers of a write. Raises InvalidRequest that names the header."""
    if if_match is not None and if_none_match is not None:
        raise _fault("If-None-Match", "cannot be sent with If-Match; leave one out")
    if if_none_match is not None:
        if if_none_match.strip() != "*":
            raise _fault("If-None-Match", "must be `*`: the write is carried out if there is no such entry")
        return Condition(must_be_absent=True)
    if if_match is None:
        return ALWAYS
    if if_match.strip() == "*":
        return Condition(must_exist=True)
    return Condition(versions=_parse_versions(if_match, "If-Match"))


def parse_known(if_none_match: str | None) -> Condition | None:
    """Return which versions a reader has already, and gets 304 for. Raises InvalidRequest that names the header."""
    if if_none_match is None:
        return None
    if if_none_match.strip() == "*":
        return Condition(must_exist=True)
    strong = ",".join(tag.strip().removeprefix("W/") for tag in if_none_match.split(","))
    return Condition(versions=_parse_versions(strong, "If-None-Match"))


def _parse_versions(header: str, name: str) -> frozenset[int]:
    if len(header) > MAX_CONDITION:
        raise _fault(name, f"must have at most {MAX_CONDITION} characters")
    found = [_TAG.fullmatch(tag.strip()) for tag in header.split(",")]
    if not all(found):
        raise _fault(name, 'must be a version in quotes as in ETag, such as "3", or `*`')
    return frozenset(int(tag[1]) for tag in found if tag)


def _fault(header: str, why: str) -> InvalidRequest:
    return InvalidRequest.from_faults([(header, why)])
