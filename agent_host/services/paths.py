"""Which paths may be asked for.

The service may read a path in another way than we do: it may decode it twice, or take `\\` for `/`. So a path that
could be read in two ways is refused, and the rest is compared with the globs.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from .errors import InvalidTarget

MAX_TARGET = 8192
"""Bytes of path and query."""
_PATH = re.compile(rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*")
_QUERY = re.compile(rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?\[\]{}|^`\"<>\\]|%[0-9A-Fa-f]{2})*")
_DECODINGS = 4
"""How often a path is decoded to see what it could mean; one that has more in it is refused."""
_OVERRIDES = frozenset(("_method", "x-http-method-override", "x-http-method", "x-method-override"))
"""Parameters by which some servers take a request for one of another method."""


@dataclass(frozen=True, slots=True)
class PathGlobs:
    """Paths as the operator writes them: `*` stands for a part of one segment, `**` for any number of segments."""

    patterns: tuple[re.Pattern[str], ...]
    shown: tuple[str, ...]

    @classmethod
    def from_texts(cls, texts: Sequence[str]) -> PathGlobs:
        """Raises ValueError if one is no path."""
        for text in texts:
            if not text.startswith("/") or not text.isprintable() or "%" in text or "//" in text:
                raise ValueError(f"{text!r} is not a path; write /repos/*/issues or /repos/**, not encoded")
        return cls(tuple(map(_as_pattern, texts)), tuple(texts))

    def match(self, path: str) -> bool:
        """Whether a decoded path is allowed."""
        return any(pattern.fullmatch(path) for pattern in self.patterns)


def _as_pattern(glob: str) -> re.Pattern[str]:
    parts = re.split(r"(\*\*|\*)", glob)
    forms = {"**": ".*", "*": "[^/]*"}
    return re.compile("".join(forms.get(part) or re.escape(part) for part in parts), re.DOTALL)


def checked_path(raw: bytes) -> str:
    """Return the decoded path, which begins with a slash. Raises InvalidTarget if it could be read in two ways."""
    if len(raw) > MAX_TARGET or not _PATH.fullmatch(raw):
        raise InvalidTarget(f"path: must be at most {MAX_TARGET} bytes of a URL, percent-encoded")
    segments = raw.split(b"/")
    if b"" in segments[:-1]:
        raise InvalidTarget("path: has an empty segment (//)")
    for segment in segments:
        _check_segment(segment)
    return "/" + unquote_to_bytes(raw).decode("utf-8")


def _check_segment(segment: bytes) -> None:
    """Raise InvalidTarget if a segment leads elsewhere, however often it is decoded."""
    for _ in range(_DECODINGS):
        decoded = unquote_to_bytes(segment)
        try:
            text = unicodedata.normalize("NFKC", decoded.decode("utf-8"))
        except UnicodeDecodeError:
            raise InvalidTarget("path: is not UTF-8 when it is decoded") from None
        if any(mark in text for mark in "/\\") and decoded != segment:
            raise InvalidTarget("path: has an encoded slash or backslash")
        if not text.isprintable():
            raise InvalidTarget("path: has a control character")
        if text.partition(";")[0].strip(" .") == "" and "." in text.partition(";")[0]:
            raise InvalidTarget("path: has a segment of dots")
        if decoded == segment:
            return
        segment = decoded
    raise InvalidTarget(f"path: is encoded more than {_DECODINGS - 1} times")


def checked_query(raw: bytes, credential: str | None) -> None:
    """Raise InvalidTarget for a query that is malformed, that overrides the method, or has the credential's parameter.

    `credential`: the name of that parameter, if there is one."""
    if len(raw) > MAX_TARGET or not _QUERY.fullmatch(raw):
        raise InvalidTarget(f"query: must be at most {MAX_TARGET} bytes of a URL, percent-encoded")
    for pair in re.split(rb"[&;]", raw):
        name = pair.partition(b"=")[0].replace(b"+", b" ")
        for _ in range(_DECODINGS):
            name = unquote_to_bytes(name)
        found = name.decode("utf-8", "replace").strip().lower()
        if found in _OVERRIDES:
            raise InvalidTarget(f"query: {found} would change the method; use the method itself")
        if credential is not None and found.partition("[")[0] == credential.lower():
            raise InvalidTarget(f"query: {credential} is added by the host; leave it out")
