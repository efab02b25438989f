"""A Markdown file of notes that the runtime writes and people edit; their edits survive.

    ## e-3f9a1b2c4d

    - tool: read
    - error: invalid
    - times: 3
    - text: `notes.md does not exist`

A block with a second-level heading and a `text` field is an entry. All other lines are a person's and stay unchanged.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

MAX_ENTRIES = 300
MAX_BYTES = 192 * 1024
"""Bytes of all generated entries together."""
MAX_FILE_BYTES = 384 * 1024
"""Bytes of a file; a larger one is not read."""
FIELDS = (
    *("tool", "error", "from", "user", "session", "times", "first", "last"),
    *("instead of", "where", "answer to", "text"),
)
_MAX_TIMES = 999_999_999
_GENERATED_TITLE = re.compile("[ec]-[0-9a-f]{10}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d)?")
# A command may have written a long line: these patterns never backtrack.
_HEADING = re.compile("#{1,6}[ \t]")
_FIELD = re.compile(rf"[-*] ({'|'.join(FIELDS)}):")
_ITEM = re.compile(r"[-*] (?=\S)")
_FENCE = re.compile("`+")


@dataclass(slots=True)
class NoteEntry:
    """One note of the file."""

    title: str
    """The heading, by which a repeated note is recognized."""
    fields: dict[str, str]
    """The fields' texts as they are in the file, code spans included."""
    extra: list[str] = field(default_factory=list[str])
    """A person's lines between this note and the next."""

    def get(self, name: str) -> str:
        return strip_code_span(self.fields.get(name, ""))

    @property
    def times(self) -> int:
        count = self.fields.get("times", "")
        return max(1, min(int(count), _MAX_TIMES)) if count.isascii() and count.isdigit() and len(count) < 12 else 1

    @property
    def last(self) -> str:
        """The date of the last occurrence, which sorts as text; empty if it is missing or no date."""
        date = self.fields.get("last", "")
        return date if _DATE.fullmatch(date) else ""

    @property
    def by_hand(self) -> bool:
        """Whether a person has written the note."""
        return _GENERATED_TITLE.fullmatch(self.title) is None

    def size(self) -> int:
        """Return the note's bytes in the file."""
        return sum(len(line.encode(errors="surrogateescape")) + 1 for line in self.lines())

    def lines(self) -> Iterator[str]:
        yield f"## {self.title}"
        yield ""
        for name, value in self.fields.items():
            yield f"- {name}: {value}".rstrip()
        yield ""
        if self.extra:
            yield from self.extra
            yield ""


@dataclass(slots=True)
class NotesFile:
    """The content of a notes file: entries, and a person's lines between them."""

    parts: list[NoteEntry | list[str]] = field(default_factory=list["NoteEntry | list[str]"])

    @classmethod
    def parse(cls, text: str) -> NotesFile:
        """Read a notes file; any text is one."""
        book = cls()
        block: list[str] = []
        for line in text.split("\n"):
            if block and _HEADING.match(line):
                book._append_block(block)
                block = []
            block.append(line)
        book._append_block(block)
        return book

    def render(self) -> str:
        lines: list[str] = []
        for part in self.parts:
            if isinstance(part, NoteEntry):
                if lines and lines[-1].strip():
                    lines.append("")
                lines += part.lines()
            else:
                lines += part
        return "\n".join(lines).rstrip("\n") + "\n"

    @property
    def entries(self) -> list[NoteEntry]:
        return [part for part in self.parts if isinstance(part, NoteEntry)]

    def items(self) -> list[str]:
        """Return the list items that a person has written beside the entries."""
        lines = (line for part in self.parts for line in (part.extra if isinstance(part, NoteEntry) else part))
        return [strip_code_span(line[2:].strip()) for line in lines if _ITEM.match(line)]

    def add(self, notes: Iterable[NoteEntry]) -> None:
        """Add notes. A note that is already here counts as repeated, and keeps the text that a person gave it."""
        known = {entry.title: entry for entry in reversed(self.entries)}
        for note in notes:
            entry = known.setdefault(note.title, note)
            if entry is note:
                self.parts.append(note)
            else:
                entry.fields["times"] = str(min(entry.times + note.times, _MAX_TIMES))
                entry.fields["last"] = note.fields.get("last", "")

    def trim(self, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        """Drop generated notes beyond the limits, the oldest of the largest group first: a principal that floods the
        file displaces only its own notes. Notes written by hand stay."""
        groups: dict[tuple[str, str], deque[NoteEntry]] = {}
        for entry in sorted(self.entries, key=lambda entry: entry.last):
            if not entry.by_hand:
                whose = entry.get("user"), entry.get("from").partition(" ")[0]
                groups.setdefault(whose, deque()).append(entry)
        dropped = _select_excess(groups.values(), lambda _: 1, max_entries) | _select_excess(
            groups.values(), NoteEntry.size, max_bytes
        )
        if dropped:
            self.parts = [part for one in self.parts if (part := _without(one, dropped))]

    def _append_block(self, block: list[str]) -> None:
        part = _parse_entry(block) or block
        before = self.parts[-1] if self.parts else None
        if isinstance(part, list) and isinstance(before, list):
            before += part
        else:
            self.parts.append(part)


def code_span(text: str) -> str:
    """Return a line as a code span, so that no viewer renders it as a link or a picture."""
    fence = "`" * (1 + max(map(len, _FENCE.findall(text)), default=0))
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def strip_code_span(text: str) -> str:
    """Return the text of a code span; any other text unchanged."""
    fence = text[: len(text) - len(text.lstrip("`"))]
    if not fence or len(text) <= 2 * len(fence) or not text.endswith(fence):
        return text
    inner = text[len(fence) : -len(fence)]
    if inner.endswith("`") or fence in _FENCE.findall(inner):
        return text
    return inner.strip()


def _parse_entry(block: list[str]) -> NoteEntry | None:
    """Return a block as an entry; None if it is not one."""
    if not block[0].startswith("## "):
        return None
    fields: dict[str, list[str]] = {}
    extra: list[str] = []
    last = ""
    for line in block[1:]:
        found = None if extra else _FIELD.match(line)
        if found and found[1] not in fields:
            last = found[1]
            fields[last] = [line[found.end() :].strip()]
        elif last and line.startswith("  ") and line.strip():  # an editor has wrapped it
            fields[last].append(line.strip())
        elif extra or line.strip():
            last = ""
            extra.append(line)
        else:
            last = ""
    while extra and not extra[-1].strip():
        extra.pop()
    texts = {name: " ".join(filter(None, pieces)) for name, pieces in fields.items()}
    return NoteEntry(block[0][3:].strip(), texts, extra) if texts.get("text") else None


def _select_excess(groups: Iterable[deque[NoteEntry]], weigh: Callable[[NoteEntry], int], limit: int) -> set[int]:
    """Take entries out of the heaviest groups until the rest is within the limit; return the `id()` of each."""
    members = list(groups)
    heap = [(-sum(map(weigh, group)), number) for number, group in enumerate(members)]
    heapq.heapify(heap)
    total = -sum(weight for weight, _ in heap)
    dropped: set[int] = set()
    while total > limit:
        weight, number = heap[0]
        entry = members[number].popleft()
        total -= weigh(entry)
        heapq.heapreplace(heap, (weight + weigh(entry), number))
        dropped.add(id(entry))
    return dropped


def _without(part: NoteEntry | list[str], dropped: set[int]) -> NoteEntry | list[str]:
    """Return the part, or what remains of it: a person's lines below a dropped entry are kept."""
    if isinstance(part, NoteEntry) and id(part) in dropped:
        return ["", *part.extra, ""] if part.extra else []
    return part
