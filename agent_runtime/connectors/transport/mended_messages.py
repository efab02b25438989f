"""Mend the messages of a server whose JSON or form the package refuses, before it reads them.

A message that is refused is lost: a list takes all tools with it, and of a call that has run the result. So a half of a
surrogate pair, which is what remains of an emoji that was cut, and bytes that are no UTF-8 become U+FFFD, and an answer
to a request gets the form of the protocol: some write an error as a text, or a code in words. Over HTTP it is known
which request an answer is for, so that its identity and the version may be missing. A request or notification loses
parameters that are empty and no object, as PHP writes them. What may be understood in two ways is left as it is, to be
refused.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from functools import partial
from typing import Any, cast

from agent_common.json_reader import JsonRefused, read_json

from ..rate_limit import JSON_LIMITS

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|u|[^u](?:[^\\]*+\\[^u])*+)"
)
"""A whole pair, half of one (the group), another character by its number, or all up to the next of these."""
_MAYBE_LOOSE = re.compile(rb'"error"\s*:|"(?:result|params)"\s*:\s*[^{\s]|"notifications/progress"')
"""Found in every message of another form, and in few others."""
_DATA_LINE = re.compile(rb"(?:^|(?<=[\r\n]))(data:)([^\r\n]*)")
_INTERNAL_ERROR = -32603

Fields = dict[str, Any]
RequestId = int | str


def mend_message(data: bytes, request_id: RequestId | None = None) -> bytes:
    """Return a message as JSON that can be read, in the form of the protocol; what is no message, as it is.

    `request_id`: of the request of ours whose answer this is if it is an answer at all, as over HTTP.
    """
    data = _mend_text(data.removeprefix(BOM_UTF8))
    if request_id is None and not _MAYBE_LOOSE.search(data):
        return data
    try:
        found: Any = read_json(data, JSON_LIMITS)
    except JsonRefused:
        return data
    message = found if request_id is None else _with_id(found, request_id)
    if isinstance(message, dict):
        fields = cast("Fields", message)
        message = _mend_answer(fields) or _mend_asking(fields) or fields
    return data if message is found else json.dumps(message).encode()


def mend_events(lines: bytes, request_id: RequestId | None = None) -> bytes:
    """Return whole lines of a stream of events, with the messages in them mended. `request_id`: as above."""
    mend = partial(mend_message, request_id=request_id)
    return _DATA_LINE.sub(lambda line: line[1] + mend(line[2]), lines)


def is_whole(data: bytes) -> bool:
    """Return whether the data of an event that ends with the stream is a message that is not cut off."""
    try:
        return isinstance(read_json(_mend_text(data), JSON_LIMITS), dict | list)
    except JsonRefused:
        return False


def find_request_id(message: bytes) -> RequestId | None:
    """Return the identity of a request of ours; None if the message is none, or too large to be read."""
    try:
        sent: Any = read_json(message, JSON_LIMITS)
    except JsonRefused:
        return None
    found: Any = cast("Fields", sent).get("id") if isinstance(sent, dict) and "method" in sent else None
    return found if isinstance(found, int | str) else None


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


def _with_id(found: Any, request_id: RequestId) -> Any:
    """Return the answer to this request as one: with its identity and version, and out of a list. Else what was
    found."""
    listed = cast("list[Any]", found) if isinstance(found, list) else [found]
    answers = [cast("Fields", one) for one in listed if isinstance(one, dict) and _is_answer(cast("Fields", one))]
    if len(answers) != 1:
        return cast("Any", found)
    answer = answers[0]
    head = {"jsonrpc": "2.0", "id": request_id}
    same = type(answer.get("id")) is type(request_id) and head.items() <= answer.items()  # 1.0 is no identity
    return answer if same else {**answer, **head}


def _is_answer(message: Fields) -> bool:
    return "method" not in message and ("result" in message or "error" in message)


def _mend_answer(message: Fields) -> Fields | None:
    """Return an answer in the form of the protocol, or None if it has it, or is no answer."""
    if message.get("jsonrpc") != "2.0" or "id" not in message or "method" in message:
        return None
    head = {"jsonrpc": "2.0", "id": message["id"]}
    error = message.get("error")
    result = message.get("result")
    if not error and isinstance(result, dict):  # an empty error beside a result says that there is none
        return None if error is None else {**head, "result": result}
    if error is not None:
        return None if _is_error(error) else {**head, "error": _error(error)}
    if "result" not in message or isinstance(result, dict):
        return None
    return {**head, "result": {} if result is None else {"content": result}}


def _mend_asking(message: Fields) -> Fields | None:
    """Return a request or notification of the server in the form of the protocol, or None if it has it, or is none."""
    if "method" not in message or "params" not in message:
        return None
    params = message["params"]
    if not params and not isinstance(params, dict):
        return {key: one for key, one in message.items() if key != "params"}
    if message["method"] != "notifications/progress" or not isinstance(params, dict):
        return None
    given = cast("Fields", params)
    token = given.get("progressToken")
    progress = given.get("progress")
    # How far it has come is not used, only that it comes.
    mended: Fields = {} if _is_number(progress) else {"progress": 0}
    if isinstance(token, float) and token.is_integer():
        mended["progressToken"] = int(token)
    return {**message, "params": given | mended} if mended else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_error(error: Any) -> bool:
    fields = cast("Fields", error) if isinstance(error, dict) else {}
    return isinstance(fields.get("code"), int) and isinstance(fields.get("message"), str)


def _error(error: Any) -> Fields:
    """Return an error of another form with its words, which are all of it where it has no message."""
    fields = cast("Fields", error) if isinstance(error, dict) else {}
    code = fields.get("code")
    words = error if isinstance(error, str) else fields.get("message")
    return {
        "code": code if isinstance(code, int) else _INTERNAL_ERROR,
        "message": words if isinstance(words, str) else json.dumps(error, ensure_ascii=False),
        "data": fields.get("data"),
    }
