"""What must hold when all is quiet, and the figures."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.soak.model import EFFECTS, FINAL
from tests.soak.record import Record, effects, read

from .errands import Errand

if TYPE_CHECKING:
    from .driver import World

_ENDS = ("resulted", "dead", "cancelled", "expired")


def verdict(place: World, errands: list[Errand]) -> Iterator[str]:
    """Every fault, in words."""
    rows = {row["request_id"]: row for row in place.ledger.rows("SELECT * FROM work")}
    ends = Counter(
        row["request_id"]
        for row in place.ledger.rows(
            f"SELECT request_id FROM work_audit WHERE direction = 'host' AND type IN {_ENDS!r}"  # noqa: S608
        )
    )
    records = {guest.id: read(guest.database) for guest in place.guests}
    lines = {guest.id: effects(guest.data / "workspace" / EFFECTS) for guest in place.guests}
    works = {guest.id: _works(place, number) for number, guest in enumerate(place.guests)}
    finals = {ask.owner for ask in place.model.asks if ask.place == FINAL}
    asked = {ask.owner for ask in place.model.asks}
    for name in rows.keys() - {work.id for work in errands}:
        yield f"the host has a request {name} that nobody has handed in"
    for work in errands:
        row = rows.get(work.id)
        if row is None:
            yield f"{work.id} is not in the host's ledger"
            continue
        if ends[work.id] > 1:
            yield f"{work.id} has come to {ends[work.id]} ends in the host's trail"
        mine = _Case(work, row, works[work.workspace].get(work.id), records[work.workspace], lines[work.workspace])
        yield from mine.once()
        yield from mine.ended(work.id in asked, work.id in finals)
        for other, known in works.items():
            if other != work.workspace and work.id in known:
                yield f"{work.id} of {work.workspace} was given to {other}"
    for guest_id, record in records.items():
        if record.integrity != ["ok"]:
            yield f"the database of {guest_id} is broken: {record.integrity}"


def _works(place: World, number: int) -> dict[str, sqlite3.Row]:
    return {row["request_id"]: row for row in place.seen[number].rows("SELECT * FROM work")}


class _Case:
    """One request, seen from all sides."""

    def __init__(
        self, work: Errand, row: sqlite3.Row, known: sqlite3.Row | None, record: Record, lines: list[str]
    ) -> None:
        self.work, self.row, self.known, self.record = work, row, known, record
        self.lines = [line for line in lines if line.startswith(f"{work.id}:")]

    def once(self) -> Iterator[str]:
        """It was one piece of work, and nothing of it was done twice."""
        turns = self.record.by_owner.get(self.work.id, [])
        if len(turns) > 1:
            yield f"{self.work.id} was {len(turns)} turns"
        for turn in turns:
            if turn["state"] != "ended":
                yield f"{self.work.id} has a turn that is still {turn['state']}"
        steps = Counter(line.split(":")[1] for line in self.lines)
        for step, count in steps.items():
            if count > 1:
                yield f"{self.work.id} has done step {step} {count} times: {self.lines}"

    def ended(self, asked: bool, final: bool) -> Iterator[str]:
        """It has one end, and that is what came to pass."""
        status, work = self.row["status"], self.work
        shown = "resulted" if status == "delivered" else status
        if work.end is None or work.end["status"] != shown:
            yield f"{work.id} is {status}, and the operator was told {work.end}"
            return
        if status in ("delivered", "resulted"):  # who has heard of it is written a little later
            yield from self._result(json.loads(self.row["result"]), final)
        elif status == "cancelled":
            if not work.cancelled:
                yield f"{work.id} was cancelled, and nobody asked for it"
        elif status in ("dead", "expired"):
            yield from self._without(status, str(self.row["error"] or ""), asked)
        else:
            yield f"{work.id} is {status}"

    def _without(self, status: str, error: str, asked: bool) -> Iterator[str]:
        work, code = self.work, error.split(":", maxsplit=1)[0]
        if not error:
            yield f"{work.id} is {status} and nobody says why"
        if status == "expired" and work.expires_in is None:
            yield f"{work.id} has expired within minutes"
        if (code == "too_large") != work.too_large:
            yield f"{work.id} is {status}: {error}"
        if code in ("expired", "too_large") and (asked or self.known is not None):
            yield f"{work.id} was never sent, and ran"

    def _result(self, told: dict[str, Any], final: bool) -> Iterator[str]:
        work = self.work
        if self.known is None or self.known["result_json"] is None:
            yield f"{work.id} has the result {told}, and its guest knows of none"
            return
        said = json.loads(self.known["result_json"])
        for name in ("status", "content", "error"):
            if said.get(name) != told.get(name):
                yield f"{work.id}: {name} is {said.get(name)!r} in the guest and {told.get(name)!r} in the host"
        code = (told.get("error") or "").split(":")[0]
        if told["status"] == "completed":
            yield from self._completed(told["content"], final)
        elif code == "cancelled" and work.cancelled:
            return
        elif code != "interrupted":
            yield f"{work.id} ended as {told}"

    def _completed(self, content: str, final: bool) -> Iterator[str]:
        work = self.work
        text = content if work.kind == "text" else (json.loads(content)["result"] or {}).get("text")
        if text != work.answer:
            yield f"{work.id} is recorded as {text!r}, and the answer was {work.answer!r}"
        if not final:
            yield f"{work.id} is completed, and the model was never asked for its answer"
        steps = {line.split(":")[1] for line in self.lines}
        if missing := [step for step in work.orders.effects if str(step) not in steps]:
            yield f"{work.id} is completed without the effects of its steps {missing}"


# ---------------------------------------------------------------- figures


def figures(place: World, errands: list[Errand]) -> dict[str, object]:
    """What happened, from the bridges, the host's trail and the ledgers."""
    trail = Counter[str]()
    for row in place.ledger.rows("SELECT type, detail, count(*) AS n FROM work_audit GROUP BY type, detail"):
        trail[row["type"]] += row["n"]
        if row["type"] == "retry_wait":
            trail[f"retry_wait {row['detail']}"] += row["n"]
    ends = Counter[str]()
    attempts = Counter[int]()
    for row in place.ledger.rows("SELECT status, error, result, attempts FROM work"):
        why = (row["error"] or "").split(":")[0] if row["status"] in ("dead", "expired") else ""
        if row["result"]:
            result = json.loads(row["result"])
            why = " ".join((result["status"], (result.get("error") or "").split(":")[0])).strip()
        ends[f"{row['status']} {why}".strip()] += 1
        attempts[row["attempts"]] += 1
    history = Counter(event.kind for guest in place.guests for event in guest.history)
    return {
        "breaks of connections": sum(guest.breaks + guest.bridge.counts.breaks for guest in place.guests),
        **{f"  {kind}": count for kind, count in history.most_common()},
        "probes": sum(guest.probes + guest.bridge.counts.probes for guest in place.guests),
        "attachments": trail["attached"],
        "requests sent": trail["request"],
        "attempts": ", ".join(f"{count} with {n}" for n, count in sorted(attempts.items())),
        "sent once more": trail["retry_wait"],
        **{f"  {name.removeprefix('retry_wait ')}": n for name, n in sorted(trail.items()) if "retry_wait " in name},
        "duplicates refused": trail["duplicate_result"],
        "ends": len(errands),
        **{f"  {end}": count for end, count in sorted(ends.items())},
        "effects of tools": sum(len(effects(guest.data / "workspace" / EFFECTS)) for guest in place.guests),
        **{name: n for name, n in sorted(trail.items()) if name.startswith("alarm.")},
        **{f"operator: {name}": n for name, n in sorted(place.operator.counts.items())},
    }
