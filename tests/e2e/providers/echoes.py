"""What a provider has given with its answers, in its own shape, and whether it comes back to it and to nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from agent_testing import Recorded
from agent_testing.provider import Given

History = Iterable[dict[str, Any]]
TEXTS = ("text", "output_text")
OWN = 24
"""Characters from which on a text is no word that others use too."""


def check_that_it_comes_back(given: Sequence[Given], requests: Sequence[Recorded]) -> list[str]:
    """Each request has with each of the answers in it what was given with that one, to the byte. Return what came back
    with the last one, answer by answer."""
    known = {name: rest for _, answer in given for name, rest in answers_in(answer)}
    seen: list[str] = []
    for request in requests:
        found = [(name, rest) for name, rest in answers_in(_history(request)) if name in known]
        changed = [(rest, known[name]) for name, rest in found if rest != known[name]]
        assert not changed, changed[0]
        seen = [rest for _, rest in found]
    return seen


def check_that_others_do_not_see_it(given: Sequence[Given], others: Sequence[Recorded]) -> None:
    rests = [rest for _, answer in given for _, rest in answers_in(answer)]
    own = {text.encode() for rest in rests for text in texts_in(rest) if len(text) >= OWN}
    bodies = b"\n".join(request.body for request in others)
    assert [text for text in own if text in bodies] == []


def texts_in(rest: str) -> list[str]:
    """Return the texts of what was given with an answer."""
    return list(_texts(json.loads(rest)))


def answers_in(history: History) -> Iterator[tuple[str, str]]:
    """Yield of each answer the ids of its calls, or its words, and as JSON what it has beside them."""
    for place, several in groupby(enumerate(history), _place):
        if place is None:
            continue
        answer = [one for _, one in several]
        parts = [part for one in answer for part in _parts(one)]
        calls = [call for one in (*answer, *parts) for call in (one, *(one.get("tool_calls") or ())) if _is_call(call)]
        words = "".join(part.get("text", "") for part in parts if part["type"] in TEXTS)
        name = " ".join(call.get("call_id") or call["id"] for call in calls) or words
        yield name, json.dumps([_rest(one) for one in (*answer, *parts, *calls) if one.get("type") not in TEXTS])


def _place(numbered: tuple[int, dict[str, Any]]) -> int | None:
    """Return where an answer stands, None for what others say: a message is one, items of the Responses API are one
    together."""
    at, one = numbered
    if one.get("role", "assistant") != "assistant" or one.get("type") == "function_call_output":
        return None
    return -1 if "type" in one else at


def _is_call(one: dict[str, Any]) -> bool:
    return one.get("type") in ("function", "tool_use", "function_call")


def _rest(one: dict[str, Any]) -> dict[str, Any]:
    """Return a message, item, part or call without its words and what a call says. In which order its members stand
    says nothing; each has to be the same to the byte."""
    words = {"role", "content", "tool_calls", "text", "name", "input", "function", "arguments", "cache_control"}
    return {name: one[name] for name in sorted(one.keys() - words)}


def _parts(one: dict[str, Any]) -> Sequence[dict[str, Any]]:
    content = one.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []


def _texts(value: Any) -> Iterator[str]:
    """Yield all texts within a value, those of types, which say nothing, left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        value = [one for name, one in value.items() if name not in ("type", "id", "call_id")]
    for one in value if isinstance(value, list) else ():
        yield from _texts(one)


def _history(request: Recorded) -> History:
    return request.fields.get("messages") or request.fields.get("input") or ()
