"""Agents write, claim, publish and receive while the host is killed: nothing is lost, doubled or out of order."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.ports import free_port
from tests.unit.host.postgresql import new_database, postgresql

from .live import OPERATOR, PATIENCE, Host
from .members import make_member
from .racer import ORDER_ROUNDS, Hold

GIVE_UP_SECONDS = 1700.0
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True)
class Scale:
    agents: int
    rounds: int
    """In each of which an agent writes, claims and publishes once."""
    kills: int

    @property
    def orders(self) -> int:
        """How many each agent publishes."""
        return self.rounds // ORDER_ROUNDS


FEW, MANY = Scale(agents=8, rounds=15, kills=4), Scale(agents=32, rounds=105, kills=20)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Generator[str | None]:
    """The URL of a database; None: the host's own."""
    if request.param == "sqlite":
        yield None
        return
    with postgresql() as server:
        yield new_database(server, "races")


class Follower:
    """Watches from the first event on, over all lives of the host, and takes each up where it was."""

    def __init__(self, url: str, path: str, token: str = OPERATOR) -> None:
        self.ids: list[int] = []
        self.kinds: set[str] = set()
        self._path, self._done = path, threading.Event()
        self._client = httpx.Client(
            base_url=url,
            trust_env=False,
            headers={"authorization": f"Bearer {token}", "accept": "text/event-stream"},
            timeout=5,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, last: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.ids or self.ids[-1] < last:
            assert time.monotonic() < deadline, f"{self._path}: {self.ids[-1:]} of {last}"
            time.sleep(0.05)
        self._done.set()
        self._thread.join(PATIENCE)
        self._client.close()

    def _run(self) -> None:
        while not self._done.is_set():
            try:
                self._follow()
            except httpx.TransportError:
                time.sleep(0.05)

    def _follow(self) -> None:
        last = str(self.ids[-1] if self.ids else 0)
        with self._client.stream("GET", self._path, headers={"last-event-id": last}) as reply:
            number, kind = 0, ""
            for line in reply.iter_lines():
                if line.startswith("id: "):
                    number = int(line[4:])
                elif line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    self.ids.append(number)
                    self.kinds.add(kind)


def history(operator: httpx.Client) -> list[dict[str, Any]]:
    """All changes of the counter, the oldest first."""
    found: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        more = {} if after is None else {"after": after}
        page = operator.get("/blackboard/counter/history", params={"limit": 1000, **more}).json()
        found += page["entries"]
        if (after := page.get("next")) is None:
            return found[::-1]


def messages(operator: httpx.Client, topic: str) -> list[dict[str, Any]]:
    """All messages of a topic, the oldest first."""
    found: list[dict[str, Any]] = []
    after: int | None = 0
    while after is not None:
        page = operator.get(f"/topics/{topic}", params={"limit": 1000, "after": after}).json()
        found += page["messages"]
        after = page.get("next")
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_eight_agents_race_while_the_host_is_killed(tmp_path: Path, database: str | None) -> None:
    start_race(tmp_path, database, FEW)


@pytest.mark.slow
@pytest.mark.machine
@pytest.mark.timeout(2 * GIVE_UP_SECONDS)
def test_thirty_two_agents_race_in_ten_thousand_operations(tmp_path: Path, database: str | None) -> None:
    start_race(tmp_path, database, MANY)


def start_race(folder: Path, database: str | None, scale: Scale) -> None:
    settings = {"MESH_PORT": free_port(), "MESH_LISTENER_URL": "off"}  # the same port in all lives
    with Host(folder / "data", **settings, **({"MESH_DATABASE_URL": database} if database else {})) as host:
        race(host, scale)


def race(host: Host, scale: Scale) -> None:
    assert host.operator.put("/blackboard/counter", json={"value": {"n": 0, "of": "start"}}).status_code == 201
    for key in ("turn", *(f"job/{job}" for job in range(scale.rounds))):
        assert host.operator.put(f"/blackboard/{key}", json={"value": key}).status_code == 201
    names = [f"agent-{number}" for number in range(scale.agents)]
    tokens = [make_subscriber(host, name) for name in names]
    followers = {
        "board": Follower(host.url, "/blackboard/watch"),
        "counter": Follower(host.url, "/blackboard/watch?prefix=count", tokens[0]),
        "topic": Follower(host.url, "/topics/race"),
    }
    sizes = [str(scale.rounds), str((scale.agents - 1) * scale.orders)]
    program = [sys.executable, "-m", "tests.integration.host.racer", host.url]
    racers = [
        subprocess.Popen([*program, token, name, *sizes], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for name, token in zip(names, tokens, strict=True)
    ]
    try:
        for kill in range(1, scale.kills + 1):
            wait_for_version(host, scale.agents * scale.rounds * kill // (scale.kills + 1))
            os.kill(host.process.pid, signal.SIGKILL)
            host.start()
        answers = [json.loads(racer.communicate(timeout=GIVE_UP_SECONDS)[0]) for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
        for racer in racers:
            racer.wait()
    check_board(host, scale, answers)
    check_turns(scale, answers)
    check_topics(host, scale, answers)
    check_followers(host, scale, followers)


def make_subscriber(host: Host, name: str) -> str:
    """Make an agent with a subscription to `orders`; its token."""
    token = make_member(host, name)
    with host.client(token) as client:
        assert client.post("/subscriptions", json={"topic": "orders", "session": "ses_1"}).status_code == 201
    return token


def wait_for_version(host: Host, version: int) -> None:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while host.operator.get("/blackboard/counter").json()["version"] < version:
        assert time.monotonic() < deadline, "the agents write no more"
        time.sleep(0.02)


def check_board(host: Host, scale: Scale, answers: list[dict[str, list[Any]]]) -> None:
    changes = history(host.operator)
    assert [one["version"] for one in changes] == list(range(1, len(changes) + 1))
    assert [one["value"]["n"] for one in changes] == list(range(len(changes))), "an update was lost"
    written = [one["value"]["of"] for one in changes]
    answered = [name for answer in answers for name in answer["writes"]]
    assert len(set(written)) == len(written)
    assert set(answered) <= set(written), "what was answered is there"
    assert sorted(job for answer in answers for job in answer["claims"]) == list(range(scale.rounds)), "one winner each"


def check_turns(scale: Scale, answers: list[dict[str, list[Any]]]) -> None:
    """Claims that were renewed, given back and left until they ran out: of one agent at a time, by the host's clock."""
    holds: list[Hold] = sorted((tuple(one) for answer in answers for one in answer["holds"]), key=lambda one: one[1])
    assert len(holds) >= 2 * scale.agents
    of_agents = [{claim for claim, _, _ in answer["holds"]} for answer in answers]
    assert len(set[str]().union(*of_agents)) == sum(map(len, of_agents)), "no claim is of two"
    for (before, _, end), (after, begin, _) in pairwise(holds):
        assert before == after or end <= begin, f"{before} and {after} at once"


def check_topics(host: Host, scale: Scale, answers: list[dict[str, list[Any]]]) -> None:
    found = messages(host.operator, "race")
    assert [one["seq"] for one in found] == list(range(1, scale.agents * scale.rounds + 1))
    assert {one["id"] for one in found} == {name for answer in answers for name in answer["messages"]}
    orders = messages(host.operator, "orders")
    assert [one["seq"] for one in orders] == list(range(1, scale.agents * scale.orders + 1))
    listed = host.operator.get("/subscriptions", params={"topic": "orders"}).json()["subscriptions"]
    subscriptions = {one["agent"]: one for one in listed}
    assert len(subscriptions) == len(listed) == scale.agents
    for number, answer in enumerate(answers):
        mine = subscriptions[f"agent-{number}"]
        of_others = [one["seq"] for one in orders if one["by"] != mine["agent"]]
        assert answer["orders"] == of_others, "each once, in order"
        assert mine["position"] in range(of_others[-1], orders[-1]["seq"] + 1)  # its own may have moved it on
        assert (mine["waiting"], mine["dropped"], mine["attempts"]) == (0, 0, 0)
    assert host.operator.get("/subscriptions/dead-letters").json() == {"dead_letters": []}


def check_followers(host: Host, scale: Scale, followers: dict[str, Follower]) -> None:
    newest = int(host.operator.get("/blackboard").headers["last-event-id"])
    others = range(2, scale.rounds + 3)  # `turn` and the jobs were written second
    wanted = {
        "board": list(range(1, newest + 1)),
        "counter": [number for number in range(1, newest + 1) if number not in others],
        "topic": list(range(1, scale.agents * scale.rounds + 1)),
    }
    assert len(wanted["counter"]) == len(history(host.operator))
    for name, follower in followers.items():
        follower.wait_for(wanted[name][-1])
        assert follower.ids == wanted[name], f"{name}: a gap, or out of order"
    assert {name: follower.kinds for name, follower in followers.items()} == {
        "board": {"put"},
        "counter": {"put"},
        "topic": {"message"},
    }
