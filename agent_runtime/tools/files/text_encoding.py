"""Text files with a byte order mark, as Windows writes them: shown and changed as text, and kept so."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
HEAD_SIZE = 4
"""Bytes in which a mark is found, and told from that of UTF-32."""
WIDE_MARK = codecs.BOM_UTF32_LE
"""Begins like that of UTF-16, and is of UTF-32."""


@dataclass(frozen=True, slots=True)
class Utf16:
    """The encoding of a file with a byte order mark."""

    mark: bytes
    name: str

    def to_utf8(self, data: bytes) -> bytes:
        """Return the content of a whole file. Raises UnicodeDecodeError."""
        return data.removeprefix(self.mark).decode(self.name).encode()

    def from_utf8(self, content: bytes) -> bytes:
        return self.mark + content.decode().encode(self.name)


def utf16_of(head: bytes) -> Utf16 | None:
    """Return the encoding of a file that begins so, or None if it is not UTF-16 with a mark."""
    mark = head[:2]
    name = None if head.startswith(WIDE_MARK) else _MARKS.get(mark)
    return Utf16(mark, name) if name else None


def encoded_as(content: str, head: bytes) -> bytes:
    """Return a text in the encoding of a file that begins so, with its mark; UTF-8 where there is no mark. Lone
    surrogates are replaced."""
    data = content.encode(errors="replace")
    if (encoding := utf16_of(head)) is not None:
        return encoding.from_utf8(data.removeprefix(codecs.BOM_UTF8))
    return codecs.BOM_UTF8 + data if head.startswith(codecs.BOM_UTF8) and not data.startswith(codecs.BOM_UTF8) else data


def has_cr_lf_only(data: bytes) -> bool:
    """Tell whether a file has lines, all of which end in CR LF."""
    if (encoding := utf16_of(data[:HEAD_SIZE])) is not None:
        try:
            data = encoding.to_utf8(data)
        except UnicodeDecodeError:
            return False
    return 0 < data.count(b"\n") == data.count(b"\r\n")


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
