"""The densest JSON that a place takes, and readers of all that is kept, several at once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable

import httpx

from tests.e2e.live import in_background
from tests.integration.host.live import PATIENCE

MEMBERS = (b"[]", b'{"":0}', b'""')
COUNTS = (390_000, 190_000, 99_000, 64_000, 32_000, 16_000, 9_900, 4_900, 1_000, 100)
MANY = 6
"""Values that each place is given of each kind."""
READERS = 4
REFUSED = {409, 413, 422, 429, 502, 503}
NUMBERS = itertools.count()
Send = Callable[[bytes], httpx.Response]


def dense(member: bytes, count: int) -> bytes:
    return b"[" + b",".join([member] * count) + b"]"


def quoted(value: bytes) -> bytes:
    """The value as a text."""
    return json.dumps(value.decode()).encode()


def fill(send: Send) -> int:
    """Send the largest lists that are admitted, until one is refused or many are kept. Return how many are."""
    kept, reply = 0, httpx.Response(500)
    for member in MEMBERS:
        counts = iter(COUNTS)
        while (count := next(counts, None)) is not None and not (reply := send(dense(member, count))).is_success:
            assert reply.status_code in REFUSED, reply.text[:500]
        if count is None:
            continue
        kept += 1
        for _ in range(MANY - 1):
            if not (reply := send(dense(member, count))).is_success:
                assert reply.status_code in REFUSED, reply.text[:500]
                break
            kept += 1
    assert kept, f"nothing is admitted here: {reply.text[:500]}"
    return kept


def read_at_once(client: httpx.Client, paths: Iterable[str]) -> None:
    """Have several readers ask for each of these at the same time."""

    def read(path: str) -> int:
        with client.stream("GET", path, timeout=PATIENCE) as reply:
            for _ in reply.iter_raw(1 << 16):
                continue
            return reply.status_code

    for path in paths:
        reading = [in_background(lambda path=path: read(path)) for _ in range(READERS)]
        for thread, _ in reading:
            thread.join(PATIENCE)
        statuses = [got[0] if got else None for _, got in reading]
        assert 200 in statuses, (path, statuses)
        assert set(statuses) <= {200, 429, 503}, (path, statuses)


def replay(client: httpx.Client, path: str) -> None:
    """Have several readers follow a stream from its beginning, until it says no more."""

    def follow() -> int:
        with client.stream("GET", path, headers={"last-event-id": "0"}, timeout=httpx.Timeout(PATIENCE, read=3)) as it:
            try:
                for _ in it.iter_raw(1 << 16):
                    continue
            except httpx.ReadTimeout:
                pass
            return it.status_code

    following = [in_background(follow) for _ in range(READERS)]
    for thread, _ in following:
        thread.join(PATIENCE)
    assert all(got and got[0] in (200, 410, 422) for _, got in following), following


def post(client: httpx.Client, method: str, path: str, body: bytes) -> httpx.Response:
    return client.request(method, path, content=body, headers={"content-type": "application/json"}, timeout=PATIENCE)
