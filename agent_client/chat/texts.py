"""The texts of a turn over several connections, each of which sends them from the beginning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from io import StringIO

from .events import TextDelta, TextKind, TextReplaced

_Key = tuple[TextKind, int]


class _Text:
    """One text: what the caller has of it, from all connections, and how much of it this connection has sent."""

    def __init__(self) -> None:
        self.length = 0
        self._passed_on = StringIO()
        self._size = 0

    def add(self, delta: str) -> str | None:
        """Take more of this connection. Returns what of it is new, or None if it is not what the caller has."""
        at = self.length
        self.length = self.length + len(delta)
        self._passed_on.seek(at)
        known = self._passed_on.read(len(delta))
        fits = delta.startswith(known)
        if not fits or self.length > self._size:
            self._passed_on.seek(at)
            self._passed_on.write(delta)
            self._passed_on.truncate()
            self._size = self.length
        return delta[len(known) :] if fits else None

    def cut(self) -> bool:
        """Forget what this connection did not send. Returns whether there was any."""
        longer = self._size > self.length
        self._size = self.length
        self._passed_on.truncate(self.length)
        return longer

    @property
    def value(self) -> str:
        return self._passed_on.getvalue()


@dataclass(slots=True)
class Texts:
    """Passes on what is new in each text, and says so when a text has become another.

    A text is known by its number within the turn: its id is another one once a recorded turn is read.
    """

    _texts: dict[_Key, _Text] = field(default_factory=dict[_Key, _Text])
    _open: dict[str, _Key] = field(default_factory=dict[str, _Key])
    """The texts of this connection by their chunk ids."""
    _counts: dict[TextKind, int] = field(default_factory=dict[TextKind, int])

    def reconnected(self) -> None:
        """A new connection sends everything again."""
        self._open.clear()
        self._counts.clear()
        for text in self._texts.values():
            text.length = 0

    def start(self, kind: TextKind, chunk_id: str) -> None:
        number = self._counts.get(kind, 0)
        self._counts[kind] = number + 1
        self._open[chunk_id] = kind, number
        self._texts.setdefault((kind, number), _Text())

    def add(self, chunk_id: str, delta: str) -> Iterator[TextDelta | TextReplaced]:
        kind, number = self._open[chunk_id]
        text = self._texts[kind, number]
        new = text.add(delta)
        if new is None:
            yield TextReplaced(text.value, number, kind)
        elif new:
            yield TextDelta(new, number, kind)

    def end(self, chunk_id: str) -> Iterator[TextReplaced]:
        yield from self._cut(self._open[chunk_id])

    def finish(self) -> Iterator[TextReplaced]:
        """The turn has ended: take back what this connection did not send."""
        for key in self._texts:
            yield from self._cut(key)

    def _cut(self, key: _Key) -> Iterator[TextReplaced]:
        kind, number = key
        if self._texts[key].cut():
            yield TextReplaced(self._texts[key].value, number, kind)
