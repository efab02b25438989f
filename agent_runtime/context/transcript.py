"""Render a part of a conversation as plain text, for the agent that summarizes it.

Each message is wrapped in tags that name its author, and no message can close its own or open another: otherwise a web
page could put words into the person's mouth, and the summary would attribute them to that person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json  # noqa: TID251  messages of our own making

PRUNED_CHARACTERS = 400
"""Characters that are kept of a pruned result."""
UNPRUNED_TOOLS = ("todo", "task")
"""Their results are the state of the work itself."""
UNPRUNED_NEWEST = 4
"""Results at the end of the stretch that are not pruned."""
MIN_SPLIT_CHARACTERS = 64
"""Characters; what is no longer is not cut in two."""
SPLIT_SEARCH_CHARACTERS = 400
"""Characters before the middle in which a good split point is searched."""
_TAGS = re.compile(r"<(?=[\s/]*(?:conversation|message)\b)", re.IGNORECASE)

Cost = Callable[[str], int]
"""Counts the tokens of a text."""


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
    """One message, or a part of one."""

    author: str
    """The author, and for a part of a message its number."""
    text: str

    def __str__(self) -> str:
        return f'<message by="{self.author}">\n{_TAGS.sub("&lt;", self.text)}\n</message>'


def entries(messages: Iterable[bytes], *, prune: bool = False) -> list[TranscriptEntry]:
    """Return one entry per message and one per tool call."""
    parsed: list[dict[str, Any]] = [from_json(message) for message in messages]
    results = [at for at, message in enumerate(parsed) if message["role"] == "tool"]
    old = set(results[:-UNPRUNED_NEWEST]) if prune else set[int]()
    names: dict[str, str] = {}
    found: list[TranscriptEntry] = []
    for at, message in enumerate(parsed):
        found += _entries(message, names, prune=at in old)
    return found


def render(texts: Iterable[TranscriptEntry]) -> str:
    """Return the entries as one text."""
    return "\n".join(map(str, texts))


def chunks(texts: Iterable[TranscriptEntry], cost: Cost, budget: int) -> list[list[TranscriptEntry]]:
    """Split the entries into pieces of at most `budget` tokens each. A longer entry is cut up; nothing is left out."""
    pieces: list[list[TranscriptEntry]] = []
    left = 0
    for entry in (part for text in texts for part in _parts(text, cost, budget)):
        needed = cost(str(entry)) + 1
        if needed > left:
            pieces.append([])
            left = budget
        pieces[-1].append(entry)
        left -= needed
    return pieces


def without_middle(texts: Sequence[TranscriptEntry], cost: Cost, budget: int) -> str:
    """Return as many entries of the beginning and of the end as fit, a quarter of the budget for the beginning."""
    costs = [cost(str(entry)) + 1 for entry in texts]
    head = _collect_within_budget(zip(texts, costs, strict=True), budget // 4)
    rest = list(zip(texts, costs, strict=True))[len(head) :]
    tail = _collect_within_budget(reversed(rest), budget - budget // 4)
    left = len(rest) - len(tail)
    between = [f"[{left} messages in between do not fit and were left out]"] if left else []
    return "\n".join([*map(str, head), *between, *map(str, reversed(tail))])


def _entries(message: dict[str, Any], names: dict[str, str], *, prune: bool) -> Iterator[TranscriptEntry]:
    """Yield the entries of one message. `names` maps the ids of the calls so far to their tools."""
    content: str = message.get("content") or ""
    if message["role"] == "tool":
        cut = prune and len(content) > PRUNED_CHARACTERS and names.get(message["tool_call_id"]) not in UNPRUNED_TOOLS
        text = f"{content[:PRUNED_CHARACTERS]}... [the rest was pruned]" if cut else content
        yield TranscriptEntry(f"tool {_name(names.get(message['tool_call_id'], 'unknown'))}", text)
        return
    if content:
        yield TranscriptEntry(message["role"], content)
    for call in message.get("tool_calls") or ():
        name = names[call["id"]] = call["function"]["name"]
        yield TranscriptEntry(f"assistant, calling {_name(name)}", call["function"]["arguments"])


def _name(tool: str) -> str:
    """Return a tool's name with unusual characters replaced, because a model may have made it up."""
    return re.sub(r"[^\w.-]", "_", tool)[:64]


def _parts(entry: TranscriptEntry, cost: Cost, budget: int) -> list[TranscriptEntry]:
    """Return the entry, split into parts if it exceeds the budget."""
    slices = _sliced(entry, cost, budget, entry.text)
    if len(slices) == 1:
        return [entry]
    return [
        replace(entry, author=f"{entry.author}, part {at} of {len(slices)}", text=one)
        for at, one in enumerate(slices, 1)
    ]


def _sliced(entry: TranscriptEntry, cost: Cost, budget: int, text: str) -> list[str]:
    """Halve the text until each part fits together with the tags."""
    if len(text) <= MIN_SPLIT_CHARACTERS or cost(str(replace(entry, text=text))) + 16 <= budget:
        return [text]
    middle = _split_point(text, len(text) // 2)
    return [*_sliced(entry, cost, budget, text[:middle]), *_sliced(entry, cost, budget, text[middle:])]


def _split_point(text: str, at: int) -> int:
    """Return a split point near `at`: a line end, else a word end, so that no number is cut in two."""
    earliest = at - min(at // 2, SPLIT_SEARCH_CHARACTERS)
    return text.rfind("\n", earliest, at) + 1 or text.rfind(" ", earliest, at) + 1 or at


def _collect_within_budget(found: Iterable[tuple[TranscriptEntry, int]], budget: int) -> list[TranscriptEntry]:
    taken: list[TranscriptEntry] = []
    for entry, cost in found:
        if cost > budget:
            return taken if taken else [_fitted(entry, budget / cost)]
        budget -= cost
        taken.append(entry)
    return taken


def _fitted(entry: TranscriptEntry, share: float) -> TranscriptEntry:
    """Return the entry with about that share of its text, from its beginning and its end."""
    length = max(1, int(len(entry.text) * share * 0.9))
    text = entry.text
    return replace(entry, text=f"{text[: length * 2 // 3]}\n[... left out ...]\n{text[len(text) - length // 3 :]}")
