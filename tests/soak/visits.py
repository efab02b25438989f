"""The last round over HTTP: everything that was ever acknowledged is asked for once more, and sent once more."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .answers import Reader, chat_end, task_end
from .ledger import Ledger, Sent
from .line import Line
from .lives import Lives
from .record import Record


def visit(lives: Lives, ledger: Ledger, record: Record) -> Iterator[str]:
    """Every answer that does not fit the record, in words."""
    turns, calls = len(record.turns), ledger.repeated
    with Line(lives, ledger) as line:
        for sent in ledger.tasks.values():
            if sent.acked is not None:
                yield from _task(line, sent, record)
        for sent in ledger.messages.values():
            if sent.acked is not None:
                yield from _chat(line, sent, record)
        status = line.ask("GET", "/status").json()
    if status["state"] != "idle" or status["sessions"]["queued"] or status["sessions"]["running"]:
        yield f"after all work was done the status says {status['state']}, {status['sessions']}"
    if ledger.repeated != calls:
        yield f"{ledger.repeated - calls} requests were not answered though nothing died"
    if turns != len(record.turns):
        yield "repeated requests have started something"


def _task(line: Line, sent: Sent, record: Record) -> Iterator[str]:
    [row] = [task for task in record.tasks if task["task_id"] == sent.id] or [None]
    if row is None or row["finished_at"] is None:
        return
    stored = json.loads(row["record_json"])
    again = line.ask("POST", "/task", sent.body)
    if again.status_code != 200 or again.json() != stored:
        yield f"{sent.id} sent again was answered with {again.status_code}: {again.text}; on record is {stored}"
    result = line.ask("GET", "/result", task_id=sent.id)
    if result.status_code != 200 or task_end(result.json()) != task_end(stored):
        yield f"the result of {sent.id} is {result.text}; on record is {stored}"
    try:
        with line.stream("GET", f"/task/{sent.id}/stream") as response:
            text = Reader(response).rest()
    except AssertionError as error:
        text = f"what is not a stream: {error}"
    if text != record.text(sent.id):
        yield f"the stream of {sent.id} says {text!r}; on record is {record.text(sent.id)!r}"


def _chat(line: Line, sent: Sent, record: Record) -> Iterator[str]:
    again = line.ask("POST", "/chat", {**sent.body, "wait": 0})
    answer = again.json()
    if "response" not in answer:
        yield f"{sent.id} sent again was answered with {again.status_code}: {again.text}"
    elif sent.told is not None and chat_end(answer) != sent.told:
        yield f"{sent.id} sent again was answered with {chat_end(answer)}, before with {sent.told}"
    elif answer["response"] != record.answer(sent.id):
        yield f"{sent.id} sent again was answered with {answer['response']!r}; on record is {record.answer(sent.id)!r}"
