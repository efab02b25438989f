"""Read calls that are written as a list of Python's, such as `[read(path="a"), list()]`, by Llama, LFM and others."""

from __future__ import annotations

import re
from typing import Any

from .arguments import DECODER, python_as_json

BEGINS = re.compile(r"\[\s*+(?P<name>[A-Za-z_][\w.\-]*+)(?P<called>\()?+")
_NAME = re.compile(r"\s*+(?P<name>[A-Za-z_][\w.\-]*+)\(\s*+")
_KEY = re.compile(r"(?P<key>[A-Za-z_]\w*+)\s*+=\s*+")
_COMMA = re.compile(r"\s*+(?:,\s*+)?+")
_CLOSE = re.compile(r"\)\s*+(?:,\s*+)?+")


def read_python_calls(text: str) -> tuple[list[tuple[str, dict[str, Any]]], str]:
    """Return the calls in the list at the start of a text, and the rest of the text. Raises ValueError."""
    text = python_as_json(text)
    calls: list[tuple[str, dict[str, Any]]] = []
    at = 1
    while call := _NAME.match(text, at):
        arguments: dict[str, Any] = {}
        at = call.end()
        while key := _KEY.match(text, at):
            arguments[key["key"]], at = DECODER.raw_decode(text, key.end())
            at = _COMMA.match(text, at).end()  # pyright: ignore[reportOptionalMemberAccess]  it always matches
        close = _CLOSE.match(text, at)
        if close is None:
            raise ValueError(f"unexpected in a call: {text[at : at + 40]!r}")
        calls.append((call["name"], arguments))
        at = close.end()
    if not calls or not text.startswith("]", at):
        raise ValueError(f"unexpected in a list of calls: {text[at : at + 40]!r}")
    return calls, text[at + 1 :]
