"""One agent of a race, as a process: it writes, claims and publishes at a host that is killed again and again.

    python -m tests.integration.host.racer URL TOKEN NAME ROUNDS ORDERS

It has a subscription to `orders`, to which the others publish `ORDERS` messages together. What was answered goes to
standard output as JSON: `{writes, claims, messages, holds, orders}`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

GIVE_UP_SECONDS = 120.0
LEASE_MS = 500
ORDER_ROUNDS = 15
"""Of so many rounds an agent publishes an order in one."""
Answered = dict[str, list[Any]]
Hold = tuple[str, float, float]
"""The id of a claim, and between which times it was certainly the agent's."""


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

    def claim(self, key: str, lease_ms: int) -> dict[str, Any] | None:
        """The claim; None: another has it."""
        body = {"lease_seconds": lease_ms / 1000}
        reply = self.ask(lambda client: client.post(f"/blackboard/{key}/claim", json=body))
        assert reply.status_code in (200, 409), reply.text
        return reply.json() if reply.status_code == 200 else None

    def take_turn(self, *, patient: bool, give_back: bool) -> Hold | None:
        """Claim what all want for a moment; give it back after a renewal, or let its lease run out."""
        while (claim := self.claim("turn", LEASE_MS)) is None:
            if not patient:
                return None
            time.sleep(LEASE_MS / 5000)
        begin, end = claim["expires_at"] - LEASE_MS, claim["expires_at"]
        if give_back:
            renewed = self.claim("turn", LEASE_MS)
            if renewed is not None and renewed["claim_id"] == claim["claim_id"]:
                end = renewed["expires_at"]
            end = min(end, time.time() * 1000)
            released = self.ask(lambda client: client.delete("/blackboard/turn/claim"))
            assert released.status_code in (204, 409), released.text  # 409: it had run out, and is another's
        return claim["claim_id"], begin, end

    def publish(self, topic: str, number: int) -> str:
        message_id = f"{self.name}-{number}"
        body = {"id": message_id, "data": {"by": self.name, "number": number}}
        reply = self.ask(lambda client: client.post(f"/topics/{topic}", json=body))
        assert reply.status_code in (200, 201), reply.text
        return message_id


def receive(racer: Racer, orders: int) -> list[int]:
    """Receive the orders of the others until there are all, and acknowledge each delivery by the next question."""
    seen: list[int] = []
    receipts: list[dict[str, Any]] = []
    taken = 0
    while receipts or len(seen) < orders:
        body = {"receipts": receipts, "wait_seconds": 0 if len(seen) == orders else 5}
        reply = racer.ask(lambda client, body=body: client.post("/subscriptions/deliveries", json=body))
        assert reply.status_code == 200, reply.text
        taken = max((one["seq"] for one in receipts), default=taken)
        messages = [one for delivery in reply.json()["deliveries"] for one in delivery["messages"]]
        assert all(one["seq"] > taken for one in messages), "what was acknowledged has come again"
        seen += [one["seq"] for one in messages if one["seq"] > max(seen, default=0)]
        last = messages[-1:]
        receipts = [{"subscription_id": one["subscription_id"], "seq": one["seq"], "status": "taken"} for one in last]
    return seen


def main(url: str, token: str, name: str, rounds: int, orders: int) -> Answered:
    with ThreadPoolExecutor(1) as beside:
        received = beside.submit(receive, Racer(url, token, name), orders)
        return {**run(Racer(url, token, name), rounds), "orders": received.result()}


def run(racer: Racer, rounds: int) -> Answered:
    done: Answered = {"writes": [], "claims": [], "messages": []}
    holds = [racer.take_turn(patient=True, give_back=True)]
    order_round = int(racer.name.rpartition("-")[2]) % ORDER_ROUNDS
    for number in range(rounds):
        done["writes"].append(racer.write(number))
        done["messages"].append(racer.publish("race", number))
        if racer.claim(f"job/{number}", 3_600_000) is not None:
            done["claims"].append(number)
        holds.append(racer.take_turn(patient=False, give_back=number % 2 == 0))
        if number % ORDER_ROUNDS == order_round:
            racer.publish("orders", number)
    holds.append(racer.take_turn(patient=True, give_back=False))
    return {**done, "holds": [one for one in holds if one is not None]}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4], rounds=int(sys.argv[4]), orders=int(sys.argv[5]))))
