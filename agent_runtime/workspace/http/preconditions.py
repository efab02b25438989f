"""Check a request's preconditions against the current file (RFC 9110, section 13)."""

from __future__ import annotations

import re
from dataclasses import dataclass

ANY = "*"
_TAG = re.compile(r'\s*((?:W/)?"[\x21\x23-\x7e\x80-\xff]*")\s*(?:,|$)')


@dataclass(frozen=True, slots=True)
class Preconditions:
    """`If-Match` and `If-None-Match`; None if the header was not sent."""

    match: tuple[str, ...] | None = None
    none_match: tuple[str, ...] | None = None

    @classmethod
    def from_headers(cls, match: str | None, none_match: str | None) -> Preconditions:
        """Parse the headers. An invalid tag matches nothing."""
        return cls(_tags(match), _tags(none_match))

    def failure(self, etag: str | None) -> str | None:
        """Return why a file with that tag, or a missing file (None), must not be changed; None if it may be."""
        if self.match is not None and not _names(self.match, etag):
            return "there is no such file" if etag is None else "it has changed"
        if self.none_match is not None and self.is_not_modified(etag):
            return "it exists already"
        return None

    def is_not_modified(self, etag: str | None) -> bool:
        """Return whether the caller has this version already. Weak tags suffice for reading."""
        strong = tuple(tag.removeprefix("W/") for tag in self.none_match or ())
        return _names(strong, etag)


def _names(tags: tuple[str, ...], etag: str | None) -> bool:
    return etag is not None and (ANY in tags or etag in tags)


def _tags(header: str | None) -> tuple[str, ...] | None:
    if header is None:
        return None
    if header.strip() == ANY:
        return (ANY,)
    tags: list[str] = []
    at = 0
    while at < len(header) and (found := _TAG.match(header, at)):
        tags.append(found[1])
        at = found.end()
    return tuple(tags)
