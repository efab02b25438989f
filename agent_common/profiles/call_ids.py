"""Ids of calls as a model takes them: each once in a request, and of the form that it wants.

Some providers begin to count anew in each turn, and some models refuse a request that has an id twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json, to_json  # noqa: TID251  messages of our own, or of a call that was checked

from ..protocol import is_object

_ASSISTANT = b'{"role":"assistant"'
_RESULT = re.compile(rb'\{"role":"tool","tool_call_id":("(?:[^"\\]|\\.)*")')
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORMS = {"nine": (re.compile(r"[A-Za-z0-9]{9}"), "", 9), "short": (re.compile(r"[A-Za-z0-9_-]{1,40}"), "call_", 24)}
"""Rule for ids -> what it takes, and the prefix and the length of the digest that replaces another id."""


def with_accepted_ids(messages: Sequence[bytes], rule: str | None) -> Sequence[bytes]:
    """Return messages whose ids of calls the model takes, the same in call and result. An id that came before has a
    number behind it, by the order of the messages, so that more of them at the end change no id."""
    if rule not in _FORMS and not _come_again(messages):
        return messages
    ids = _Ids(rule)
    return [ids.taken(message) for message in messages]


def _come_again(messages: Sequence[bytes]) -> bool:
    results = [found[1] for message in messages if (found := _RESULT.match(message)) is not None]
    return len(set(results)) < len(results)


class _Ids:
    """Gives the calls of one request their ids."""

    def __init__(self, rule: str | None) -> None:
        self._rule = rule
        self._sent: set[str] = set()
        self._numbers: dict[str, int] = {}
        """How often each id was given, so that many calls with one id cost no search each."""
        self._latest: dict[str, list[str]] = {}
        """Ids of the latest message with calls as they were given -> as they are sent, for the results that follow."""

    def taken(self, message: bytes) -> bytes:
        if message.startswith(_ASSISTANT):
            return self._calls(message) if b'"tool_calls":' in message else message
        found = _RESULT.match(message)  # its content, which may be long, is not parsed
        if found is None:
            return message
        given = from_json(found[1])
        sent = self._of_result(given)
        return message if sent == given else message[: found.start(1)] + to_json(sent) + message[found.end(1) :]

    def _calls(self, message: bytes) -> bytes:
        content: dict[str, Any] = from_json(message)
        self._latest = {}
        changed = False
        for call in content.get("tool_calls") or ():
            if is_object(call) and isinstance(given := call.get("id"), str):
                call["id"] = sent = _formed(self._numbered(given), self._rule)
                self._latest.setdefault(given, []).append(sent)
                changed = changed or sent != given
        return to_json(content) if changed else message

    def _numbered(self, given: str) -> str:
        unique = given
        number = self._numbers.get(given, 1)
        while unique in self._sent:
            number += 1
            unique = f"{given}_{number}"
        self._numbers[given] = number
        self._sent.add(unique)
        return unique

    def _of_result(self, given: str) -> str:
        """Return the id of the next call that has no result yet, of those with this id."""
        calls = self._latest.get(given)
        if not calls:
            return _formed(given, self._rule)
        return calls.pop(0) if len(calls) > 1 else calls[0]


def _formed(given: str, rule: str | None) -> str:
    """Return an id of the form that a rule wants: the same for the same id."""
    if rule not in _FORMS:
        return given
    pattern, prefix, length = _FORMS[rule]
    if pattern.fullmatch(given):
        return given
    number = int.from_bytes(hashlib.blake2s(given.encode()).digest())
    letters = ""
    for _ in range(length):
        number, at = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[at]
    return prefix + letters
