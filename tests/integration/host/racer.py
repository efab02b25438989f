"""One agent of a race, as a process: it writes, claims and publishes at a host that is killed again and again.

    python -m tests.integration.host.racer URL TOKEN NAME ROUNDS

What was answered goes to standard output as JSON: `{writes, claims, messages}`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx

GIVE_UP_SECONDS = 120.0
Answered = dict[str, list[Any]]


class Racer:
    """A client that sends again whatever was not answered."""

    def __init__(self, url: str, token: str, name: str) -> None:
        self.name = name
        self._client = httpx.Client(
            base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=30, trust_env=False
        )

    def ask(self, send: Callable[[httpx.Client], httpx.Response]) -> httpx.Response:
        """The answer of the host, once it has one."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < deadline:
            try:
                reply = send(self._client)
            except httpx.TransportError:
                time.sleep(0.05)
                continue
            if reply.status_code != 503:
                return reply
            time.sleep(0.05)
        raise TimeoutError("the host has not come back")

    def write(self, number: int) -> str:
        """Count the shared counter up once. Returns the name of the write that was answered."""
        for attempt in range(100_000):
            entry = self.ask(lambda client: client.get("/blackboard/counter")).json()
            operation = f"{self.name}-{number}-{attempt}"
            value = {"n": entry["value"]["n"] + 1, "of": operation}
            tag = f'"{entry["version"]}"'

            def send(client: httpx.Client, value: Any = value, tag: str = tag) -> httpx.Response:
                return client.put("/blackboard/counter", json={"value": value}, headers={"if-match": tag})

            reply = self.ask(send)
            if reply.status_code == 200:
                return operation
            assert reply.status_code == 412, reply.text
            if reply.json()["value"]["of"] == operation:  # it was written, and its answer was lost
                return operation
        raise AssertionError("it was never this one's turn")

    def claim(self, job: int) -> bool:
        reply = self.ask(lambda client: client.post(f"/blackboard/job/{job}/claim", json={"lease_seconds": 3600}))
        assert reply.status_code in (200, 409), reply.text
        return reply.status_code == 200

    def publish(self, number: int) -> str:
        message_id = f"{self.name}-{number}"
        body = {"id": message_id, "data": {"by": self.name, "number": number}}
        reply = self.ask(lambda client: client.post("/topics/race", json=body))
        assert reply.status_code in (200, 201), reply.text
        return message_id


def main(url: str, token: str, name: str, rounds: int) -> Answered:
    racer = Racer(url, token, name)
    done: Answered = {"writes": [], "claims": [], "messages": []}
    for number in range(rounds):
        done["writes"].append(racer.write(number))
        done["messages"].append(racer.publish(number))
        if racer.claim(number):
            done["claims"].append(number)
    return done


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4], rounds=int(sys.argv[4]))))
