"""Parse HTTP/1.1 replies with httptools: the one parser of the hot path's connections and of fetches from the web."""

from __future__ import annotations

import httptools

MAX_HEAD_BYTES = 64 * 1024
"""Most bytes of a head; and of the chunk sizes, their extensions and the trailers that come without a piece of the body
between them."""
_FINAL = 200
_LAST_STATUS = 599
"""Statuses below are only announcements of a reply; there are none above."""

_SINGLE = frozenset((
    "age", "content-length", "content-location", "content-type", "date", "etag", "expires", "last-modified", "location",
    "retry-after", "server", "set-cookie",
))  # fmt: skip
"""Headers that are no lists, so that two cannot be joined."""


class InvalidReply(ValueError):
    """What came is not HTTP, or what frames its body is too large."""


class ReplyParser:
    """The reply to one request at a time: `expect_reply`, then `feed` until `done`."""

    def __init__(self) -> None:
        self.status = 0
        """0 before the head has come."""
        self.headers: dict[str, str] = {}
        """Names in lower case. Several with one name are one list, except those that cannot be: of them the first."""
        self.pieces: list[bytes] = []
        """Of the body, that were not taken yet."""
        self.waiting_bytes = 0
        """Bytes of these pieces."""
        self.done = True
        self.unsolicited = False
        """Whether another reply follows the expected one."""
        self.keep_alive = False

    def expect_reply(self) -> None:
        """Forget the reply before."""
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.headers = {}
        self.pieces = []
        self.waiting_bytes = 0
        self.done = self.unsolicited = self.keep_alive = False
        self._unproductive = self._header_bytes = self._unknown_status = 0

    def feed(self, data: bytes) -> None:
        """Parse what has come. Raises InvalidReply."""
        self._unproductive += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raise InvalidReply(f"what came is not valid HTTP ({error})") from error
        if self._unknown_status:
            raise InvalidReply(f"there is no status {self._unknown_status}")
        if max(self._unproductive, self._header_bytes) > MAX_HEAD_BYTES:
            raise InvalidReply(f"headers of more than {MAX_HEAD_BYTES // 1024} KB came")

    @property
    def until_close(self) -> bool:
        """Whether the body has no length, so that it ends with its connection."""
        return bool(self.status) and not self.headers.keys() & {"content-length", "transfer-encoding"}

    # httptools' callbacks

    def on_message_begin(self) -> None:
        self.unsolicited = self.done

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + len(": \r\n")
        if self.status or self._header_bytes > MAX_HEAD_BYTES:  # a trailer is no header
            return
        key = name.decode("latin-1").lower()
        text = value.decode("latin-1")
        if key not in self.headers:
            self.headers[key] = text
        elif key not in _SINGLE:
            self.headers[key] += f", {text}"

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < _FINAL:
            self.headers.clear()
        elif status > _LAST_STATUS:
            self._unknown_status = status
        elif not self.done and self._header_bytes <= MAX_HEAD_BYTES:
            self.status = self.status or status
            self._unproductive = self._header_bytes = 0

    def on_body(self, body: bytes) -> None:
        if not self.done:
            self.pieces.append(body)
            self.waiting_bytes += len(body)
            self._unproductive = 0

    def on_message_complete(self) -> None:
        if self.status and not self.done:
            self.keep_alive = self._parser.should_keep_alive()
            self.done = True
