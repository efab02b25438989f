"""Decompress the body of an answer: some gateways compress it although nobody asked for that."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from ..errors import ModelError

MAX_PIECE = 1024 * 1024
"""Bytes that are decompressed at a time."""
_PLAIN = ("", "identity", "none", "utf-8")
_GZIP = ("gzip", "x-gzip")
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_BEGIN_OF_GZIP = b"\x1f"


class Decompressor:
    """Undoes the `content-encoding` of a body. Raises ModelError, which no other attempt mends."""

    def __init__(self, coding: str) -> None:
        self._coding = coding.strip().lower()
        if self._coding not in (*_PLAIN, *_GZIP, "deflate"):
            raise ModelError(
                f"the model endpoint compresses its answer as {coding}, which was not asked for and cannot be read",
                code="model_config",
            )
        self._inflater = None if self._coding in _PLAIN else zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
        self._begun = False

    def passes(self, data: bytes) -> bool:
        """Return whether these bytes, which come next, and the rest of the body are as they come."""
        self._trust_first_byte(data)
        return self._inflater is None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the bytes behind these, in pieces of at most MAX_PIECE."""
        self._trust_first_byte(data)
        if self._inflater is None:
            yield data
            return
        try:
            while data:
                if self._inflater.eof:
                    if self._coding not in _GZIP or not data.startswith(_BEGIN_OF_GZIP):
                        return
                    self._inflater = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)  # several gzip members are one body
                yield self._inflater.decompress(data, MAX_PIECE)
                data = self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail
        except zlib.error as error:
            raise ModelError(f"the model endpoint's {self._coding} answer cannot be read: {error}") from None

    def _trust_first_byte(self, data: bytes) -> None:
        """Correct the label by the first byte of the body: that of gzip begins no text."""
        if self._begun or not data:
            return
        self._begun = True
        first = data[:1]
        if first == _BEGIN_OF_GZIP:
            self._coding = "gzip"
            self._inflater = zlib.decompressobj(wbits=_GZIP_OR_ZLIB)
        elif self._coding in _GZIP and first[0] & 0x0F != zlib.DEFLATED:
            self._inflater = None
        elif self._coding == "deflate" and first[0] & 0x0F != zlib.DEFLATED:
            self._inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)  # many servers leave out zlib's frame


def decompress(body: bytes, coding: str, limit: int) -> bytes:
    """Return about the first `limit` bytes of a body, as far as it can be read; in place of one that cannot, why."""
    plain = bytearray()
    try:
        for piece in Decompressor(coding).feed(body):
            plain += piece
            if len(plain) >= limit:
                break
    except ModelError as error:
        return bytes(plain) or error.message.encode()
    return bytes(plain)
