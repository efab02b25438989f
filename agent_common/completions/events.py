"""From the bytes of an answer to the JSON texts in it, whatever the answer is labelled as.

The first bytes behind comments tell whether it is one JSON document or a stream of events. A stream is read as the
specification of server-sent events has it: any line end, comments, further fields, empty data, and a last line without
its end. An event is given as soon as its line is complete, because many providers leave out the blank line behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Literal, cast

from pydantic_core import to_json

from ..errors import ModelError
from ..protocol import is_object
from .damaged_json import MAX_LINE_BYTES, is_json, read_damaged
from .whole_object import DocumentEnd, WholeObject, without_comments

_QUOTED = 300
_READ = ("", "error", "message")
"""Names of events whose data must be JSON. The data of an event with another name is passed over if it is not."""
_DATA = re.compile(rb"(?:data:\s*+)++")
"""Some gateways write the name of the field twice."""
_GLUED = re.compile(rb"(?<=\})data:\s*+(?=[{\[]|\Z)")
_BOM = b"\xef\xbb\xbf"
DONE = b"[DONE]"


class EventSplitter:
    """Splits one answer into JSON texts. Raises ModelError for one that is too long."""

    def __init__(self) -> None:
        self.form: Literal["unknown", "events", "document"] = "unknown"
        self.name = ""
        """The `event` field of the event that was given last."""
        self.other = b""
        """The beginning of what is not an event: an error page, for example."""
        self._rest = bytearray()
        self._data: list[bytes] = []
        """Lines of data of an event that is not complete yet."""
        self._data_size: int
        self._object: WholeObject
        """Their size, and whether they are one object; set with the first of them."""
        self._after_return = False
        self._document_end: DocumentEnd
        """Where a document ends; set once the form is `document`."""

    @property
    def whole(self) -> bool:
        """Whether the body is one document and its end has come. What follows is not read."""
        return self.form == "document" and self._document_end.reached(self._rest)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the JSON texts that are complete with these bytes."""
        if self.form == "unknown" and not (data := self._sniff(data)):
            return
        if self.form == "document":
            self._keep(data)
            return
        if b"\r" in data or self._after_return:
            data = self._with_plain_line_breaks(data)
        first, *more = data.split(b"\n")
        self._keep(first)
        if more:
            lines = bytes(self._rest), *more[:-1]
            self._rest = bytearray(more[-1])
            for line in lines:
                if not (line or self._data):  # behind nearly every event
                    self.name = ""
                elif line.startswith(b"data: {") and line.endswith(b"}") and not self._data and b"}data:" not in line:
                    yield line[6:]  # nearly all others
                else:
                    yield from self._line(line)

    def finish(self) -> Iterator[bytes]:
        """Yield what is left at the end of the body."""
        rest = bytes(self._rest)
        self._rest = bytearray()
        if self.form == "document":
            self._document_end.reached(rest)
            yield from _documents(rest, self._document_end.at)
            return
        for line in (rest, b"") if rest or self._data else ():
            yield from (text for text in self._line(line) if text == DONE or is_json(text))  # a part is none

    def _sniff(self, data: bytes) -> bytes:
        """Decide by the first visible byte. Returns the bytes to read; none while there is no such byte."""
        self._rest += data
        held = bytes(self._rest)
        begun = without_comments(held)
        if begun.startswith(b":"):
            self._rest = bytearray(b":")  # of a comment nothing is kept
            return b""
        if not begun or held == _BOM[: len(held)]:
            self._rest = bytearray(held if begun else b"")
            return b""
        self._rest.clear()
        if begun[:1] in (b"{", b"[") and not begun.startswith(DONE):
            self.form = "document"
            self._document_end = DocumentEnd()
        else:
            self.form = "events"
        return begun

    def _line(self, line: bytes) -> Iterator[bytes]:
        if line.startswith(b"data:"):
            yield from self._data_line(_data_of(line))
        elif not line.strip():
            yield from self._complete_event()
            self.name = ""
        elif line.startswith(b"event:"):
            self.name = line[6:].strip().decode("utf-8", "replace")
        elif line.startswith(b"error:") and line[6:].lstrip().startswith(b"{"):  # llama.cpp's field for it
            self.name = "error"
            yield line[6:].strip()
        elif line.startswith(b"{"):
            yield line.strip()
        elif not line.startswith((b":", b"id:", b"retry:")) and len(self.other) < _QUOTED:
            self.other += line[:_QUOTED] + b"\n"

    def _data_line(self, text: bytes) -> Iterator[bytes]:
        if b"}data:" in text and not is_json(text):  # some leave out the line breaks between events
            for one in _GLUED.split(text):
                yield from self._data_text(one.strip())
        else:
            yield from self._data_text(text)

    def _data_text(self, text: bytes) -> Iterator[bytes]:
        if not self._data and text.endswith((b"}", b"]")):
            yield text
        elif text or self._data:
            self._add_data(text)
            if text.endswith(b"}") and self._object.closed and is_json(b"\n".join(self._data)):
                yield from self._complete_event()

    def _complete_event(self) -> Iterator[bytes]:
        """Yield the event that the lines of data so far make, and begin the next. One with a name that no reader knows
        is left out unless its data looks like JSON."""
        if self._data:
            text = b"\n".join(self._data).strip()
            self._data = []
            if text and (self.name in _READ or text.startswith((b"{", b"["))):
                yield text

    def _add_data(self, text: bytes) -> None:
        if not self._data:
            self._data_size = 0
            self._object = WholeObject()
        self._data.append(text)
        self._data_size += len(text) + 1
        if self._data_size > MAX_LINE_BYTES:
            raise ModelError(f"the model's answer holds an event of more than {MAX_LINE_BYTES} bytes")
        self._object.feed(text.decode("latin-1"))

    def _with_plain_line_breaks(self, data: bytes) -> bytes:
        if self._after_return and data.startswith(b"\n"):
            data = data[1:]
        self._after_return = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _keep(self, data: bytes) -> None:
        self._rest += data
        if len(self._rest) > MAX_LINE_BYTES:
            raise ModelError(f"the model's answer holds a line of more than {MAX_LINE_BYTES} bytes")


def _data_of(line: bytes) -> bytes:
    found = _DATA.match(line)
    return line[found.end() if found else 0 :].rstrip()


def _documents(body: bytes, end: int) -> Iterator[bytes]:
    """Yield the documents in a body: mostly one, behind which some gateways write fields of a stream. `end`: where the
    first one ends; 0 if that is not known."""
    if end:
        yield from _pieces(body[:end])
        body = body[end:]
    else:
        body = body.strip()
        if body.endswith(DONE):
            body = body.removesuffix(DONE).rstrip().removesuffix(b"data:").rstrip()
        if is_json(body) or b"\n" not in body:
            yield from _pieces(body)
            return
    for each in body.splitlines():  # one document a line
        line = each.strip().removeprefix(b"data:").strip()
        if line.startswith((b"{", b"[")) and line != DONE:
            yield line


def _pieces(document: bytes) -> Iterator[bytes]:
    """Yield the elements of a document that is a list of the pieces of an answer; any other document as it is."""
    elements: object = None
    if document.startswith(b"["):
        with suppress(ValueError):
            elements = read_damaged(document)
    if isinstance(elements, list) and any(is_object(one) and "choices" in one for one in cast("list[Any]", elements)):
        yield from map(to_json, cast("list[Any]", elements))
    else:
        yield document
