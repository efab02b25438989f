"""Tell when a JSON object that comes in pieces is whole, at a cost that grows with its length and not with its pieces.

To try to parse all that has come with each piece takes a time that is quadratic, and who sends the pieces chooses it.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'["\\]')
_SAYS = re.compile(rb'"(?:message|error|errors|detail|msg|base_resp)"\s*+:')
"""A member by which an answer or an error is known."""
_STREAMED = b'"delta"'
"""The member of a piece. Some documents have an empty one beside the message, and some pieces an empty message."""
_FINISHED = re.compile(rb'"finish_reason"\s*+:\s*+"(?!(?i:null|none)")[^"]{1,40}"')
"""What a whole document has, and of several pieces the last."""
_COMMENTS = re.compile(rb"(?::[^\r\n]*+[\r\n]\s*+)++")
_BOM = b"\xef\xbb\xbf"
_MOST_LOOKED_AT = 256 * 1024
"""Bytes of a document. The end of a longer one is the end of its body."""
_MOST_TOKENS = 400_000
"""Brackets and strings of a text. No reader takes one that has more, and to count them holds up all else."""
_LOOKED_AT_AGAIN = 64
"""Bytes in front of a piece, as it may go on with such a member."""


class WholeObject:
    """Counts brackets outside of strings. Each piece is looked at once."""

    __slots__ = (
        "_begun",
        "_broken",
        "_depth",
        "_escaped",
        "_fed",
        "_in_string",
        "_openings",
        "_tokens",
        "closed",
        "end_at",
    )

    def __init__(self, openings: str = "{") -> None:
        """`openings`: what the text may begin with; with `[` it may be a list too."""
        self._openings = openings
        self.end_at = 0
        """The offset behind the end of the object; 0 until it has ended."""
        self._fed = 0
        """Characters so far."""
        self.closed = False
        """Whether the text is an object up to its end, if it is valid JSON at all. Only a parser can tell that."""
        self._begun = self._in_string = self._escaped = False
        self._broken = False
        """Whether it can be no object any more."""
        self._depth = self._tokens = 0

    def feed(self, piece: str) -> None:
        """Go on with the next piece of the text."""
        at = 0
        self._fed += len(piece)
        if not self._begun and (begun := piece.lstrip()):
            self._begun = True
            self._broken = begun[0] not in self._openings
            at = len(piece) - len(begun)
        while self._begun and not self._broken and at < len(piece):
            if self._in_string:
                at = self._string_end(piece, at)
            elif self.closed:
                self._broken = bool(piece[at:].strip())
                self.closed = not self._broken
                return
            else:
                at = self._next_token(piece, at)

    def _next_token(self, piece: str, at: int) -> int:
        found = _TOKEN.search(piece, at)
        if found is None:
            return len(piece)
        self._tokens += 1
        self._broken = self._tokens > _MOST_TOKENS
        if found[0] == '"':
            self._in_string = True
        else:
            self._depth += 1 if found[0] in "{[" else -1
            self.closed = self._depth == 0
            if self.closed:
                self.end_at = self._fed - len(piece) + found.end()
        return found.end()

    def _string_end(self, piece: str, at: int) -> int:
        if self._escaped:
            self._escaped = False
            return at + 1
        found = _IN_STRING.search(piece, at)
        if found is None:
            return len(piece)
        self._escaped = found[0] == "\\"
        self._in_string = found[0] != '"'
        return found.end()


class DocumentEnd:
    """Tells when a body is one whole answer or error, so that its own end, which may never come, is not waited for."""

    def __init__(self) -> None:
        self._object = WholeObject("{[")
        self._looked_at = 0
        self._says = self._streamed = self._finished = False

    @property
    def at(self) -> int:
        """Where the first document in the body ends; 0 if that is not known."""
        return self._object.end_at

    def reached(self, body: bytes | bytearray) -> bool:
        """Return whether the document of this body is whole; more may stand behind it. The body may only have grown
        since the last call. A part of a stream with one document a line is not whole."""
        if len(body) > _MOST_LOOKED_AT and not self.at:
            return False
        self._object.feed(body[self._looked_at :].decode("latin-1"))
        begin = max(0, self._looked_at - _LOOKED_AT_AGAIN)
        new = body[begin:]
        self._looked_at = len(body)
        self._says = self._says or _SAYS.search(new) is not None
        self._streamed = self._streamed or _STREAMED in new
        self._finished = self._finished or _FINISHED.search(body[begin : self.at or None]) is not None
        return self.at > 0 and self._says and (self._finished or not self._streamed)


def without_comments(body: bytes) -> bytes:
    """Return a body without blanks and the comments of a stream of events at its beginning, by which some servers keep
    the connection open until they have a document."""
    begun = body.removeprefix(_BOM).lstrip()
    comments = _COMMENTS.match(begun)
    return begun[comments.end() :] if comments else begun


def first_document(body: bytes) -> bytes:
    """Return the JSON document that a body begins with, without what stands behind it; the body if it has no end."""
    body = without_comments(body)
    found = WholeObject("{[")
    found.feed(body.decode("latin-1"))
    return body[: found.end_at or None]
