"""Mend the messages of a server whose JSON or form the package refuses, before it reads them.

A message that is refused is lost: a list takes all tools with it, and of a call that has run the result. So a half of a
surrogate pair, which is what remains of an emoji that was cut, and bytes that are no UTF-8 become U+FFFD, and an answer
to a request gets the form of the protocol: some write an error as a text, or a code in words. What may be understood
in two ways is left as it is, to be refused.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from agent_common.json_reader import JsonRefused, read_json

from ..rate_limit import JSON_LIMITS

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|u|[^u](?:[^\\]*+\\[^u])*+)"
)
"""A whole pair, half of one (the group), another character by its number, or all up to the next of these."""
_MAYBE_LOOSE = re.compile(rb'"error"\s*:|"result"\s*:\s*[^{\s]')
"""Found in every answer of another form, and in few others."""
_DATA_LINE = re.compile(rb"(?:^|(?<=[\r\n]))(data:)([^\r\n]*)")
_INTERNAL_ERROR = -32603

Fields = dict[str, Any]


def mend_message(data: bytes) -> bytes:
    """Return a message as JSON that can be read, in the form of the protocol; what is no message, as it is."""
    data = _mend_text(data)
    if not _MAYBE_LOOSE.search(data):
        return data
    try:
        found: Any = read_json(data, JSON_LIMITS)
    except JsonRefused:
        return data
    mended = _mend_answer(cast("Fields", found)) if isinstance(found, dict) else None
    return data if mended is None else json.dumps(mended).encode()


def mend_events(lines: bytes) -> bytes:
    """Return whole lines of a stream of events, with the messages in them mended."""
    return _DATA_LINE.sub(lambda line: line[1] + mend_message(line[2]), lines)


class LineBuffer:
    """Holds back the line at the end of each piece of a stream until it is whole."""

    def __init__(self) -> None:
        self._line = bytearray()

    def feed(self, piece: bytes) -> bytes:
        """Return the lines that end in this piece."""
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        if not end:
            self._line += piece
            return b""
        lines = bytes(self._line) + piece[:end]
        self._line[:] = piece[end:]
        return lines

    @property
    def rest(self) -> bytes:
        return bytes(self._line)


def _mend_text(data: bytes) -> bytes:
    """Replace what is no character, without a change of the rest."""
    try:
        data.decode()
    except UnicodeDecodeError:
        data = data.decode(errors="replace").encode()
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], data)


def _mend_answer(message: Fields) -> Fields | None:
    """Return an answer in the form of the protocol, or None if it has it, or is no answer."""
    if message.get("jsonrpc") != "2.0" or "id" not in message or "method" in message:
        return None
    head = {"jsonrpc": "2.0", "id": message["id"]}
    error, result = message.get("error"), message.get("result")
    if error is not None:
        return None if _is_error(error) else {**head, "error": _error(error)}
    if "result" not in message or isinstance(result, dict):
        return None
    return {**head, "result": {} if result is None else {"content": result}}


def _is_error(error: Any) -> bool:
    fields = cast("Fields", error) if isinstance(error, dict) else {}
    return isinstance(fields.get("code"), int) and isinstance(fields.get("message"), str)


def _error(error: Any) -> Fields:
    """Return an error of another form with its words, which are all of it where it has no message."""
    fields = cast("Fields", error) if isinstance(error, dict) else {}
    code, words = fields.get("code"), error if isinstance(error, str) else fields.get("message")
    return {
        "code": code if isinstance(code, int) else _INTERNAL_ERROR,
        "message": words if isinstance(words, str) else json.dumps(error, ensure_ascii=False),
        "data": fields.get("data"),
    }
