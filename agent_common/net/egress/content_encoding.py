"""Decompress bodies up to a limit, because a few kilobytes can expand to gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ...errors import ToolFailure

ACCEPTED = "gzip, deflate"
_GZIP = 16 + zlib.MAX_WBITS
_ZLIB = zlib.MAX_WBITS
_RAW = -zlib.MAX_WBITS
_FORMS = {"gzip": _GZIP, "x-gzip": _GZIP, "deflate": _ZLIB}
_UNKNOWN = frozenset({"br", "zstd", "compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip"})
"""Compressions that are not read here. Any other name is none: some servers name a charset."""
_GZIP_SIGN = b"\x1f"
"""The first byte of gzip, with which no text begins."""

PIECE_BYTES = 64 * 1024
"""Most bytes that are decompressed at once."""


class Inflater:
    """Decompresses a body piece by piece. Raises ToolFailure if the Content-Encoding is not supported.

    `text`: the body is text, so that its first byte shows whether it is gzip. Some proxies leave the label out, and
    others leave it on what they have decompressed.
    """

    def __init__(self, encoding: str, *, text: bool = False) -> None:
        names = [part.strip().lower() for part in encoding.split(",")]
        names = [name for name in names if name in _FORMS or name in _UNKNOWN]
        if len(names) > 1 or (names and names[0] not in _FORMS):
            raise ToolFailure(f"the server compressed its answer as {encoding[:50]!r}, which was not requested")
        self._form = _FORMS[names[0]] if names else None
        self._unpack = zlib.decompressobj(self._form) if self._form else None
        self._text = text
        self._begun = False

    def pieces(self, piece: bytes) -> Iterator[bytes]:
        """Yield what a piece of the body expands to, a bounded part at a time. Raises ToolFailure if it is damaged."""
        if piece and self._text and self._form in (None, _GZIP):
            self._form = _GZIP if piece.startswith(_GZIP_SIGN) else None
            self._unpack = zlib.decompressobj(_GZIP) if self._form else None
        self._text = self._text and not piece
        if self._unpack is None:
            yield piece
            return
        while piece:
            data, piece = self._step(piece)
            if data:
                yield data

    def finish(self) -> None:
        """Call at the end of the body. Raises ToolFailure if the compressed data is not complete."""
        if self._unpack is not None and self._begun and not self._unpack.eof:
            raise ToolFailure("the answer ends in the middle of its compressed data")

    def _step(self, piece: bytes) -> tuple[bytes, bytes]:
        """Decompress part of the piece; return the data and the rest of the piece."""
        assert self._unpack is not None  # noqa: S101  checked by the caller
        if self._unpack.eof:
            if self._form != _GZIP or not piece.startswith(_GZIP_SIGN):
                return b"", b""  # data after the end is ignored
            self._unpack = zlib.decompressobj(_GZIP)  # concatenated gzip members are one body
        try:
            data = self._unpack.decompress(piece, PIECE_BYTES)
        except zlib.error as error:
            if self._form != _ZLIB or self._begun:
                raise ToolFailure("the answer's compressed data is damaged") from error
            self._form = _RAW  # `deflate` may lack its zlib header
            self._unpack = zlib.decompressobj(_RAW)
            return b"", piece
        self._begun = True
        return data, self._unpack.unused_data if self._unpack.eof else self._unpack.unconsumed_tail


class DecodedBody:
    """The first `limit` bytes of a decompressed body. Raises ToolFailure if the Content-Encoding is not supported."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._inflater = Inflater(encoding)
        self._limit = limit
        self.data = bytearray()
        self.truncated = False
        """Whether the body was longer than the limit."""

    def feed(self, piece: bytes) -> None:
        for data in self._inflater.pieces(piece):
            remaining = self._limit - len(self.data)
            self.data += data[:remaining]
            if len(data) > remaining:
                self.truncated = True
                return

    def finish(self) -> None:
        """Call at the end of the body. Raises ToolFailure if the compressed data is not complete."""
        if not self.truncated:
            self._inflater.finish()
