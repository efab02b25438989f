"""What the model was asked: nothing twice without need, and every conversation whole and in its order."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

from .ledger import Ledger, Sent
from .model import Ask
from .record import Record


def repeats(owner: str, asks: list[Ask]) -> Iterator[str]:
    """The model is asked the same thing again only after a death, and once for each."""
    first: dict[str, Ask] = {}
    again: Counter[int] = Counter()
    in_life: Counter[tuple[str, int]] = Counter()
    for ask in asks:
        in_life[ask.place, ask.life] += 1
        if first.setdefault(ask.place, ask).life < ask.life:
            again[ask.life] += 1
    for (place, life), count in in_life.items():
        if count > 1:
            yield f"{owner} asked the model {count} times for {place} in life {life}"
    for life, count in again.items():
        if count > 1:
            yield f"{owner} repeated {count} model calls in life {life}"


def extends(owner: str, asks: list[Ask]) -> Iterator[str]:
    """Each question begins with the one before, to the letter: what a model was shown once is never taken back."""
    for before, after in pairwise(asks):
        if after.shown[: len(before.shown)] != before.shown:
            yield f"{owner} was shown another past in life {after.life}, at {after.place}, than at {before.place}"


def repeated(asks: list[Ask]) -> int:
    """Model calls that were made again."""
    return sum(count - 1 for count in Counter((ask.owner, ask.place) for ask in asks).values())


def order(record: Record, ledger: Ledger, asks: list[Ask]) -> Iterator[str]:
    """Messages of one session ran in the order in which they came, for the model and in the record."""
    asked: dict[str, dict[str, None]] = defaultdict(dict)
    for ask in asks:
        if (sent := ledger.messages.get(ask.owner)) is not None:
            asked[sent.room].setdefault(ask.owner)
    stored: dict[str, list[str]] = defaultdict(list)
    for row in record.users:
        orders, hidden = record.orders.get(row["id"]), "hidden_at" in json.loads(row["metadata_json"])
        if orders is not None and orders.owner in ledger.messages and not hidden:
            stored[ledger.messages[orders.owner].room].append(orders.owner)
    for room, owners in asked.items():
        yield from _in_order(ledger.messages[owner] for owner in owners)
        yield from _in_order(ledger.messages[owner] for owner in stored[room])
        ran = [owner for owner in stored[room] if owner in owners]
        if ran != list(owners):
            yield f"{room} ran as {list(owners)} and is recorded as {ran}"
    yield from _memory(ledger, stored, asks)


def _memory(ledger: Ledger, stored: dict[str, list[str]], asks: list[Ask]) -> Iterator[str]:
    """The model was shown every message that came before, in the order of the record."""
    for ask in asks:
        sent = ledger.messages.get(ask.owner)
        if sent is None:
            continue
        told = stored[sent.room][: stored[sent.room].index(ask.owner) + 1] if ask.owner in stored[sent.room] else []
        copied = len(ask.before) - len(told) if sent.in_copy else 0
        if told and list(ask.before[copied:]) != told:
            missing = [owner for owner in told if owner not in ask.before]
            yield f"the model answered {ask.owner} in life {ask.life} without {missing} (or in another order)"


def _in_order(sent: Iterable[Sent]) -> Iterator[str]:
    """`sent` as they ran: whoever was acknowledged before another was sent, ran before it."""
    earliest: Sent | None = None
    for one in reversed(list(sent)):
        if earliest is not None and earliest.acked is not None and earliest.acked < one.first_sent:
            yield f"{earliest.id} was acknowledged before {one.id} was sent, and ran behind it"
        if one.acked is not None and (earliest is None or one.acked < (earliest.acked or 0)):
            earliest = one
