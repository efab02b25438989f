"""Tasks by the faces of two guests, a channel that breaks, guests and a host that are killed, and a receiver that fails
half the time: each result is at the host once, and each callback arrives."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import itertools
import json
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from agent_testing import Say, ScriptedProvider

from .mediation.errands import Operator
from .mediation.processes import Guest, HostLives, free_ports

BREAKS, KILLS_OF_HOST, KILLS_OF_GUESTS = 20, 3, 4
QUIET = 60.0
"""Seconds in which all must have come home once nothing breaks any more."""
MAX_FAILURES = 8
"""Of one delivery: each doubles the pause, and one that always failed would come home too late."""
AT_ONCE = 4
"""Tasks that are posted to a guest at the same time."""
USERS = ("operator", "ann", "bob")


@dataclass(slots=True)
class Receiver:
    """An HTTP server that answers half of all requests with a failure, or not at all."""

    dice: random.Random
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    taken: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Bodies that were answered with success, by the id of their delivery."""
    attempts: Counter[str] = field(default_factory=Counter[str])
    faults: list[str] = field(default_factory=list[str])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """Note a request; the status of its answer, 0 for none."""
        row = json.loads(body)
        delivery = headers["x-agent-delivery"]
        digest = hmac.new(self.secrets[row["workspace"]].encode(), body, hashlib.sha256).hexdigest()
        with self._lock:
            self.attempts[delivery] += 1
            if headers["x-agent-signature"] != f"sha256={digest}":
                self.faults.append(f"the signature of {row['task_id']} is wrong")
            if self.taken.get(delivery, row) != row:
                self.faults.append(f"{delivery} has brought two different results")
            status = self.dice.choice((204, 204, 500, 0)) if self.attempts[delivery] <= MAX_FAILURES else 204
            if status == 204:
                self.taken[delivery] = row
            return status

    def serve(self) -> ThreadingHTTPServer:
        take = self.take

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = take({name.lower(): value for name, value in self.headers.items()}, body)
                if status:
                    self.send_response(status)
                    self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                del format, args

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server


@dataclass(slots=True)
class Place:
    """The processes, and what is known of them."""

    host: HostLives
    guests: list[Guest]
    operator: Operator
    receiver: Receiver
    urls: dict[str, str]
    """The faces of the guests that live."""
    result_url: str
    posted: int = 0


async def run(seed: int, folder: Path, tasks: int = 200) -> list[str]:
    """One run; every fault, in words."""
    dice = random.Random(seed)
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        provider = stack.enter_context(ScriptedProvider())
        provider.script.replace(None, otherwise=Say('{"result": {"total": 42}}'))
        receiver, ports = Receiver(random.Random(seed + 1)), free_ports()
        server = receiver.serve()
        stack.callback(server.server_close)
        stack.callback(server.shutdown)
        hosts = {"MESH_CALLBACK_HOSTS": "127.0.0.1", "MESH_CALLBACK_RETRY": "0.02"}
        host = HostLives(folder, ports, **hosts)
        stack.callback(host.end)
        host.begin()
        await host.ready()
        operator = Operator(host.url)
        stack.push_async_callback(operator.close)
        guests = [Guest(number, folder, provider.url, host.target, ports) for number in range(2)]
        place = Place(host, guests, operator, receiver, {}, f"http://127.0.0.1:{server.server_port}/done")
        for guest in guests:
            await _open(place, guest, stack)
        await _storm(place, tasks, dice)
        return await _verdict(place, tasks) + receiver.faults


async def _open(place: Place, guest: Guest, stack: AsyncExitStack) -> None:
    """The first guest's workspace names the callback; tasks of the second name it themselves."""
    own = {"result_url": place.result_url} if guest is place.guests[0] else {}
    reply = await place.operator.ask("POST", "/workspaces", {"id": guest.id, "driver": "external", **own})
    assert reply.status_code == 201, reply.text
    place.receiver.secrets[guest.id] = reply.json()["result_secret"]
    guest.key(reply.json()["mediation_key"])
    await guest.bridge.__aenter__()
    stack.push_async_callback(guest.calm)
    stack.callback(guest.life.end)
    await _begin(place, guest)


async def _begin(place: Place, guest: Guest) -> None:
    guest.life.begin()
    place.urls[guest.id] = (await guest.life.ready()).split('"')[3]


async def _storm(place: Place, tasks: int, dice: random.Random) -> None:
    """Post all tasks. Each break and each death comes after a number of them that the seed has chosen."""
    moments = [(dice.randrange(tasks), "break") for _ in range(BREAKS)]
    moments += [(dice.randrange(tasks), "host") for _ in range(KILLS_OF_HOST)]
    moments += [(dice.randrange(tasks), "guest") for _ in range(KILLS_OF_GUESTS)]
    victims = itertools.cycle(place.guests)
    limits = {guest.id: asyncio.Semaphore(AT_ONCE) for guest in place.guests}
    async with asyncio.TaskGroup() as group:
        for number in range(tasks):
            guest = place.guests[number % len(place.guests)]
            group.create_task(_post(place, guest, number, limits[guest.id]))
        for at, what in sorted(moments):
            async with asyncio.timeout(QUIET):
                while place.posted < at:
                    await asyncio.sleep(0.005)
            await _strike(place, what, next(victims) if what == "guest" else dice.choice(place.guests))


async def _strike(place: Place, what: str, guest: Guest) -> None:
    if what == "break":
        await _until(lambda: guest.bridge.cut() > 0)  # it may be about to connect again
    elif what == "host":
        place.host.kill()
        place.host.begin()
        await place.host.ready()
    else:
        guest.life.kill()
        await _begin(place, guest)


async def _post(place: Place, guest: Guest, number: int, limit: asyncio.Semaphore) -> None:
    """Post one task until it is accepted. The same id with the same content is the same task."""
    own = {"result_url": place.result_url} if guest is place.guests[1] else {}
    body = {
        "task_id": f"task-{number}", "workflow_id": "w", "step_id": "s", "task_type": "sum",
        "input_data": {"number": number}, "timeout": 600, **own,
    }  # fmt: skip
    headers = {"x-agent-user": USERS[number % len(USERS)]}
    async with limit, httpx.AsyncClient(timeout=30, trust_env=False) as client, asyncio.timeout(QUIET):
        while True:
            try:
                reply = await client.post(f"{place.urls[guest.id]}/task", json=body, headers=headers)
            except httpx.TransportError:
                reply = None
            if reply is not None and reply.status_code in (200, 202):
                place.posted += 1
                return
            if reply is not None and reply.status_code not in (429, 503):
                raise AssertionError(reply.text)
            await asyncio.sleep(0.05)


# ---------------------------------------------------------------- verdict


async def _verdict(place: Place, tasks: int) -> list[str]:
    """Wait until all results and callbacks have arrived, or the time is up. Returns every fault."""
    await _until(lambda: len(_recorded(place.host.database)) >= tasks)
    await _until(lambda: len(place.receiver.taken) >= tasks and not _pending(place.host.database))
    rows = _recorded(place.host.database)
    faults = [*_count(place, rows, tasks), *_deliveries(place, rows), *await _listed(place, rows)]
    if (breaks := sum(guest.bridge.counts.breaks for guest in place.guests)) < BREAKS:
        faults.append(f"the channel broke {breaks} times only")
    for guest in place.guests:
        faults += _compare(guest, [row for row in rows if row["workspace"] == guest.id])
    lives = (place.host, *(guest.life for guest in place.guests))
    return faults + [f"{life.name} was never killed" for life in lives if life.number < 2]


def _count(place: Place, rows: list[sqlite3.Row], tasks: int) -> list[str]:
    counts = Counter((row["workspace"], row["task_id"]) for row in rows)
    posted = {(place.guests[number % len(place.guests)].id, f"task-{number}") for number in range(tasks)}
    wrong = [name for name in posted | counts.keys() if counts[name] != (name in posted)]
    return [f"{task_id} of {guest} was recorded {counts[guest, task_id]} times" for guest, task_id in wrong]


async def _listed(place: Place, rows: list[sqlite3.Row]) -> list[str]:
    """The operator is told what is on disk."""
    reply = await place.operator.ask("GET", "/results?limit=1000")
    told = Counter((one["workspace"], one["user"], one["task_id"]) for one in reply.json()["results"])
    kept = Counter((row["workspace"], row["principal"], row["task_id"]) for row in rows)
    return [f"the host tells of {name} {told[name]} times" for name in told.keys() | kept if told[name] != kept[name]]


def _deliveries(place: Place, rows: list[sqlite3.Row]) -> list[str]:
    known, taken = {row["delivery"]: row for row in rows}, place.receiver.taken
    faults = [f"the callback of {row['task_id']} has not arrived" for name, row in known.items() if name not in taken]
    for name, body in taken.items():
        row = known.get(name)
        if row is None or json.loads(row["result"]) != body["result"]:
            faults.append(f"{body['task_id']} was delivered, and is recorded as {row and row['result']}")
    return faults


def _compare(guest: Guest, rows: list[sqlite3.Row]) -> list[str]:
    """What the host has recorded is what the guest knows, and the guest keeps no report."""
    faults: list[str] = []
    known = {(row["principal"], row["task_id"]): row for row in _rows(guest.database, "SELECT * FROM tasks")}
    for row in rows:
        told, own = json.loads(row["result"]), json.loads(known[row["principal"], row["task_id"]]["record_json"])
        if any(told[name] != own[name] for name in ("status", "result", "error_code", "session_id")):
            faults.append(f"{row['task_id']} is {own} in the guest and {told} at the host")
    if left := _rows(guest.database, "SELECT * FROM task_reports"):
        faults.append(f"{guest.id} still has {len(left)} reports")
    return faults


async def _until(holds: Callable[[], bool]) -> None:
    """Return once it holds, or when the time is up: the verdict says what is missing."""
    end = time.monotonic() + QUIET
    while not holds() and time.monotonic() < end:
        await asyncio.sleep(0.1)


def _recorded(database: Path) -> list[sqlite3.Row]:
    return _rows(database, "SELECT * FROM task_results")


def _pending(database: Path) -> list[sqlite3.Row]:
    return _rows(database, "SELECT id FROM task_results WHERE delivery_state <> 'delivered'")


def _rows(database: Path, query: str) -> list[sqlite3.Row]:
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30)) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute(query).fetchall()
