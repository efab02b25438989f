"""What must hold when all work is done: how each turn may have ended, and what it must have left."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .ledger import Ledger, Sent
from .lives import Lives
from .model import Ask, answer_to
from .record import Record
from .talk import extends, order, repeats

LATE = 5.0
"""Seconds past a deadline that a server may be dead or busy with rising."""
LIVES = 3
"""Lives in a row without a completed step after which a task is given up."""


def at_the_end(record: Record, ledger: Ledger, lives: Lives, asks: list[Ask], lines: list[str]) -> Iterator[str]:
    """Every fault, in words."""
    for turn in record.unfinished:
        yield f"{turn['task_id'] or turn['client_id']} is still {turn['state']}"
    by_owner: dict[str, list[Ask]] = defaultdict(list)
    for ask in asks:
        by_owner[ask.owner].append(ask)
    for sent in ledger.tasks.values():
        yield from _task(sent, record, lives, by_owner[sent.id], lines)
    for sent in ledger.messages.values():
        yield from _chat(sent, record, lives, by_owner[sent.id], lines)
    yield from _on_record(record, lines)
    yield from order(record, ledger, asks)
    yield from _streams(record, ledger)


def _task(sent: Sent, record: Record, lives: Lives, asks: list[Ask], lines: list[str]) -> Iterator[str]:
    found = record.by_owner.get(sent.id)
    if not found or found[0]["outcome_json"] is None:
        return
    [row] = [task for task in record.tasks if task["task_id"] == sent.id]
    stored = json.loads(row["record_json"])
    end = stored["error_code"] or stored["status"]
    if stored["limit"] not in (None, "deadline"):
        yield f"{sent.id} met the limit {stored['limit']}"
    match end:
        case "complete":
            yield from _finished(sent, stored, lines)
        case "cancelled":
            if not sent.stopped:
                yield f"{sent.id} was cancelled, and nobody asked for it"
        case "deadline_exceeded":
            ran = stored["finished_at"] - stored["started_at"]
            if ran < sent.body["timeout"] * 1000 - 50:
                yield f"{sent.id} ran {ran} ms and was ended by its deadline of {sent.body['timeout']} s"
        case "interrupted":
            yield from _given_up(sent, lives, asks, stored["finished_at"] / 1000)
        case _:
            yield f"{sent.id} ended as {end}: {stored['error']}"
    yield from repeats(sent.id, asks)
    yield from extends(sent.id, asks)


def _finished(sent: Sent, stored: dict[str, Any], lines: list[str]) -> Iterator[str]:
    if stored["finished_at"] - stored["started_at"] > (sent.body["timeout"] + LATE) * 1000:
        yield f"{sent.id} is complete long after its deadline of {sent.body['timeout']} s: {stored}"
    if stored["result"] != {"text": answer_to(sent.orders)}:
        yield f"{sent.id} is complete with {stored['result']}"
    yield from _effects(sent, lines)


def _given_up(sent: Sent, lives: Lives, asks: list[Ask], end: float) -> Iterator[str]:
    """A task is given up only after three lives in a row in which no model call came to its end."""
    places = list(dict.fromkeys(ask.place for ask in asks))
    if len(places) > 1:  # the last but one came to its end, in the life in which it was asked for last
        since, own = max(ask.at for ask in asks if ask.place == places[-2]), 1
    else:
        since, own = sent.first_sent, 0
    deaths = lives.deaths_between(since, end) - own
    if deaths < LIVES:
        yield f"{sent.id} was given up after {deaths} lives without a completed step"


def _chat(sent: Sent, record: Record, lives: Lives, asks: list[Ask], lines: list[str]) -> Iterator[str]:
    found = record.by_owner.get(sent.id)
    if not found or found[0]["outcome_json"] is None:
        return
    outcome = json.loads(found[0]["outcome_json"])
    match outcome.get("error_code") or outcome["status"]:
        case "complete":
            reply = record.answer(sent.id)
            if reply != answer_to(sent.orders):
                yield f"{sent.id} is complete with {reply!r}"
            yield from _effects(sent, lines)
        case "cancelled":
            if not sent.stopped:
                yield f"{sent.id} was cancelled, and nobody asked for it"
        case "interrupted":
            if not any(death >= sent.first_sent for death in lives.deaths):
                yield f"{sent.id} was interrupted, and nothing died"
        case other:
            yield f"{sent.id} ended as {other}: {outcome}"
    if sent.withdrawn is not None and asks:
        yield f"{sent.id} was withdrawn from the queue, and the model was asked for it"
    yield from repeats(sent.id, asks)


def _on_record(record: Record, lines: list[str]) -> Iterator[str]:
    """A tool starts only when its call is on disk: whoever reads the record knows of each effect that there was."""
    for line in lines:
        owner, step, attempt, _ = line.split(":")
        if not any(call.startswith(f"s{step}-bash-{attempt}") for call in record.calls(owner)):
            yield f"the effect of {owner}:{step}:{attempt} happened, and no record knows of its call"


def _effects(sent: Sent, lines: list[str]) -> Iterator[str]:
    left = {line.split(":")[1] for line in lines if line.startswith(f"{sent.id}:")}
    missing = [step for step in sent.orders.effects if str(step) not in left]
    if missing:
        yield f"{sent.id} is complete without the effects of its steps {missing}"


def _streams(record: Record, ledger: Ledger) -> Iterator[str]:
    for sent, text in ledger.streams:
        found = record.by_owner.get(sent.id)
        if found and found[0]["state"] == "ended" and record.text(sent.id) != text:
            yield f"a stream of {sent.id} said {text!r}, the record says {record.text(sent.id)!r}"
