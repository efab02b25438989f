"""What must hold at any moment, whatever has died in between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from .answers import task_end
from .ledger import Ledger
from .record import Record, Row


def always(record: Record, ledger: Ledger, lines: list[str]) -> Iterator[str]:
    """Every fault of the record, in words."""
    yield from _whole(record)
    yield from _kept(record, ledger)
    yield from _closed(record)
    yield from _outcomes(record)
    yield from _told(record, ledger)
    yield from once(lines)


def _whole(record: Record) -> Iterator[str]:
    if record.integrity != ["ok"]:
        yield f"integrity_check: {record.integrity}"
    if record.foreign:
        yield f"foreign_key_check: {record.foreign}"


def _kept(record: Record, ledger: Ledger) -> Iterator[str]:
    """What was acknowledged is there, once, with its content."""
    for sent in (*list(ledger.tasks.values()), *list(ledger.messages.values())):
        found = record.by_owner.get(sent.id, [])
        if len(found) > 1:
            yield f"{sent.id} was admitted {len(found)} times: {[tuple(turn) for turn in found]}"
        elif not found and sent.acked is not None:
            yield f"{sent.id} was acknowledged and is not there"
        elif found and record.orders[found[0]["message_id"]] != sent.orders:
            yield f"{sent.id} has other content: {record.said[found[0]['message_id']]!r}"
        elif found and sent.refused:
            yield f"{sent.id} was refused and is there all the same"


def _closed(record: Record) -> Iterator[str]:
    for part in record.orphans:
        yield f"call {part['tool_call_id']} is {part['tool_state']} though its turn has ended: {_who(part)}"
    for part in record.growing:
        yield f"a text still grows though its turn has ended: {_who(part)}"


def _outcomes(record: Record) -> Iterator[str]:
    """One outcome for each ended turn, none for others; a task says the same as its turn."""
    for turn in record.turns:
        if (turn["state"] == "ended") != (turn["outcome_json"] is not None):
            yield f"{_who(turn)} is {turn['state']} with the outcome {turn['outcome_json']}"
    turns = {turn["message_id"]: turn for turn in record.turns}
    for task in record.tasks:
        turn, stored = turns[task["message_id"]], json.loads(task["record_json"])
        ended = turn["state"] == "ended"
        if ended != (task["finished_at"] is not None) or ended != (stored["finished_at"] is not None):
            yield f"{task['task_id']}: the turn is {turn['state']}, the record is {stored['status']}"
        elif ended:
            outcome = json.loads(turn["outcome_json"] or "{}")
            theirs = {name: stored[name] for name in ("status", "error_code", "limit")}
            if theirs != {name: outcome.get(name) for name in theirs}:
                yield f"{task['task_id']}: the turn ended as {outcome}, the record says {theirs}"
        elif (turn["state"] == "queued") != (stored["status"] == "queued"):
            yield f"{task['task_id']}: the turn is {turn['state']}, the record is {stored['status']}"


def _told(record: Record, ledger: Ledger) -> Iterator[str]:
    """An end that was told never changes."""
    tasks = {task["task_id"]: json.loads(task["record_json"]) for task in record.tasks}
    for sent in list(ledger.tasks.values()):
        if sent.told is not None and sent.id in tasks and task_end(tasks[sent.id]) != sent.told:
            yield f"{sent.id} was told to have ended as {sent.told}, the record says {task_end(tasks[sent.id])}"
    for sent in list(ledger.messages.values()):
        found = record.by_owner.get(sent.id, [])
        if sent.told is None or len(found) != 1:
            continue
        reply = record.answer(sent.id)
        if found[0]["state"] != "ended" or reply != sent.told["response"]:
            yield f"{sent.id} was answered with {sent.told}, the record is {found[0]['state']}: {reply!r}"


def once(lines: Iterable[str]) -> Iterator[str]:
    """No effect happened twice, and if one did, whose fault it was."""
    lines = list(lines)
    for line, count in Counter(lines).items():
        if count > 1:
            yield f"the runtime ran the tool of {line} {count} times"
    answers = Counter(line.rsplit(":", 1)[0] for line in set(lines))
    for key, count in answers.items():
        if count > 1:
            yield f"the effect of {key} happened, and the model was asked for it again: its call was not on record"
    steps = Counter(key.rsplit(":", 1)[0] for key in answers)
    for key, count in steps.items():
        if count > 1:
            yield f"the effect of {key} came only after the model had looked and not found it"


def _who(row: Row) -> Any:
    return row["task_id"] or row["client_id"]
