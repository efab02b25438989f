"""Compaction markers: a message that holds the summary and says where the verbatim rest begins
(docs/reference/compaction.md#on-the-wire). Nothing before it is hidden or deleted: the latest visible marker decides
what the model sees.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, cast

from agent_common.protocol import Usage, is_object

from .store import rows
from .store.rows import MessageRow, PartRow

COMPACTION = "data-compaction"


@dataclass(frozen=True, slots=True)
class Shortened:
    """A result of the tail that is shown only in part from here on, because the whole would not fit."""

    message_id: str
    """The user message of its turn."""
    call_id: str
    kept: int
    """Characters."""


@dataclass(frozen=True, slots=True)
class Marker:
    """What stands in the place of the messages before the tail."""

    summary: str
    """Empty: nothing was left out, and only results are shown in part."""
    summary_tokens: int
    auto: bool
    """False: somebody asked for it."""
    tail_start_id: str | None = None
    """The user message that the tail begins with; none: nothing is kept verbatim."""
    tail_start_step: int = 0
    """Behind that message the tail goes on with this step of its turn, counted from 1; up to 1 nothing is left out."""
    spoken_to: str = ""
    """The agent of the message before the tail."""
    shortened: tuple[Shortened, ...] = ()

    def to_part(self) -> dict[str, Any]:
        """The message's only part."""
        data: dict[str, Any] = {
            "summary": self.summary,
            "tail_start_id": self.tail_start_id,
            "auto": self.auto,
            "summary_tokens": self.summary_tokens,
        }
        if self.tail_start_step > 1:
            data["tail_start_step"] = self.tail_start_step
        if self.spoken_to:
            data["spoken_to"] = self.spoken_to
        if self.shortened:
            data["shortened"] = [[one.message_id, one.call_id, one.kept] for one in self.shortened]
        return {"type": COMPACTION, "data": data}

    @classmethod
    def from_part(cls, part: Mapping[str, Any]) -> Marker | None:
        """The marker that a part is; none for one that says nothing usable."""
        data: Any = part.get("data")
        if part.get("type") != COMPACTION or not is_object(data) or not isinstance(data.get("summary"), str):
            return None
        start: Any = data.get("tail_start_id")
        whom: Any = data.get("spoken_to")
        return cls(
            summary=data["summary"],
            summary_tokens=_number(data.get("summary_tokens")),
            auto=data.get("auto") is True,
            tail_start_id=start if isinstance(start, str) else None,
            tail_start_step=_number(data.get("tail_start_step")),
            spoken_to=whom if isinstance(whom, str) else "",
            shortened=tuple(_shortened(data.get("shortened"))),
        )

    def omits_step(self, message_id: str, step: int) -> bool:
        """Whether a step of the turn of that user message lies before the tail, though the message itself is kept."""
        return message_id == self.tail_start_id and step < self.tail_start_step

    def with_ids(self, ids: Mapping[str, str]) -> Marker:
        """The same where messages have other ids."""
        start = self.tail_start_id
        return replace(
            self,
            tail_start_id=ids.get(start, start) if start is not None else None,
            shortened=tuple(replace(one, message_id=ids.get(one.message_id, "")) for one in self.shortened),
        )


@dataclass(frozen=True, slots=True)
class Marked:
    """A marker where it lies."""

    message_id: str
    created_at: int
    marker: Marker


def insert(connection: sqlite3.Connection, row: MessageRow, part_id: str, marker: Marker) -> None:
    """Stores the marker as a message of its own. The row's metadata may hold `usage`: what the summary cost."""
    rows.upsert_message(connection, row)
    rows.upsert_part(connection, PartRow(part_id, row.id, row.session_id, 0, marker.to_part(), row.created_at))
    usage = Usage.model_validate(row.metadata.get("usage", {}))
    rows.add_usage(connection, row.session_id, usage, row.created_at)


def latest(connection: sqlite3.Connection, session_id: str) -> Marked | None:
    """The marker that counts: the last one that no rewind has hidden."""
    found = connection.execute(_SHOWN, (session_id,))
    for row in found:
        marker = Marker.from_part(rows.load(row["data_json"]))
        if marker is not None:
            return Marked(row["id"], row["created_at"], marker)
    return None


_SHOWN = f"""
SELECT m.id, m.created_at, p.data_json FROM chat_parts p JOIN chat_messages m ON m.id = p.message_id
WHERE p.session_id = ? AND p.type = '{COMPACTION}' AND m.role = 'assistant'
  AND json_extract(m.metadata_json, '$.hidden_at') IS NULL
ORDER BY m.created_at DESC, m.id DESC
"""  # noqa: S608  it is a constant


def summary_usage(connection: sqlite3.Connection, session_id: str) -> Usage:
    """What the summaries of a session have cost, those included that a rewind has hidden."""
    found = connection.execute(_ALL, (session_id,))
    usages = (Usage.model_validate(rows.load(row["metadata_json"]).get("usage", {})) for row in found)
    return reduce(Usage.plus, usages, Usage())


_ALL = f"""
SELECT m.metadata_json FROM chat_parts p JOIN chat_messages m ON m.id = p.message_id
WHERE p.session_id = ? AND p.type = '{COMPACTION}' AND m.role = 'assistant'
"""  # noqa: S608  it is a constant


def _number(value: Any) -> int:
    """A count as it was stored; what came in from elsewhere may be anything."""
    return value if type(value) is int and value >= 0 else 0


def _shortened(value: Any) -> Sequence[Shortened]:
    found = cast("list[Any]", value) if isinstance(value, list) else []
    return [Shortened(*one) for one in map(_triple, found) if one is not None]


def _triple(value: Any) -> tuple[str, str, int] | None:
    match value:
        case [str(message_id), str(call_id), int(kept)] if kept >= 0:
            return message_id, call_id, kept
        case _:
            return None
