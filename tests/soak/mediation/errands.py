"""The requests of a run, and the operator who hands them in and never gives up."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import httpx

from tests.soak.model import Orders, answer_to

from .processes import ADMIN, MOST_LINE

Kind = Literal["text", "json"]
PLANS: tuple[tuple[str, ...], ...] = ((), (), (), ("bash",), ("read",), ("bash", "bash"))
OVER = ("resulted", "dead", "cancelled", "expired")
_PRINCIPALS = 3
_ANSWER_SECONDS = 120.0


@dataclass(slots=True, eq=False)
class Errand:
    """One request, and what the operator has heard of it."""

    orders: Orders
    workspace: str
    kind: Kind
    principal: str
    expires_in: float | None = None
    too_large: bool = False
    cancelled: bool = False
    """The operator has asked for its cancellation."""
    end: dict[str, Any] | None = None
    """The first end that was told; no other may ever be."""

    @property
    def id(self) -> str:
        return self.orders.owner

    @property
    def answer(self) -> str:
        return answer_to(self.orders)

    def body(self) -> dict[str, Any]:
        text = self.orders.text() if self.kind == "text" else json.dumps(self.orders.json())
        request: dict[str, Any] = {
            "request_id": self.id,
            "content": text + " " * (MOST_LINE * self.too_large),
            "content_kind": self.kind,
            "principal": {"name": self.principal, "kind": "user"},
        }
        return {"workspace": self.workspace, "request": request, "expires_in": self.expires_in}


def errand(
    name: str, workspace: str, dice: random.Random, *, plan: tuple[str, ...] | None = None, slow: bool = False
) -> Errand:
    """A request as the dice will; a slow one takes a second, so that something can happen to it."""
    chosen = dice.choice(PLANS) if plan is None else plan
    words, pace = (8, 0.12) if slow else (dice.randint(1, 5), dice.choice((0.0, 0.0, 0.01)))
    orders = Orders(name, chosen, words=words, pace=pace, linger=0.3 if slow and chosen else 0.0)
    return Errand(orders, workspace, dice.choice(("text", "json")), f"p{dice.randrange(_PRINCIPALS)}")


class Operator:
    """Hands in work and asks for it, again and again until the host answers."""

    def __init__(self, url: str) -> None:
        headers = {"authorization": f"Bearer {ADMIN}"}
        self._http = httpx.AsyncClient(base_url=url, headers=headers, timeout=30, trust_env=False)
        self.faults: list[str] = []
        self.counts: Counter[str] = Counter()

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        """Raises TimeoutError when nobody answers for long."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while True:
            try:
                reply = await self._http.request(method, path, json=body)
            except httpx.TransportError:
                self.counts["unanswered calls"] += 1
            else:
                if reply.status_code not in (429, 503):
                    return reply
            if time.monotonic() > deadline:
                raise TimeoutError(f"{method} {path} was not answered for {_ANSWER_SECONDS:g} s")
            await asyncio.sleep(0.05)

    async def enrol(self, workspace: str) -> str:
        """A workspace that somebody else boots; its key."""
        reply = await self.ask("POST", "/workspaces", {"id": workspace, "driver": "external"})
        assert reply.status_code == 201, reply.text
        started = await self.ask("POST", f"/workspaces/{workspace}/start")
        assert started.status_code == 200, started.text
        return reply.json()["mediation_key"]

    async def submit(self, work: Errand, *, again: bool = False) -> None:
        """Until it is taken; `again` once more, and with other content, which must be refused."""
        await self._taken(work)
        if again:
            await self._taken(work)
            body = work.body()
            body["request"]["content"] += "!"
            reply = await self.ask("POST", "/work", body)
            self.counts["other work under the same id refused"] += 1
            if reply.status_code != 409:
                self.faults.append(f"{work.id} with other content was answered {reply.status_code}: {reply.text}")

    async def _taken(self, work: Errand) -> None:
        reply = await self.ask("POST", "/work", work.body())
        if reply.status_code == 200:
            self.counts["handed in again"] += 1
        elif reply.status_code != 202:
            self.faults.append(f"{work.id} was not taken: {reply.status_code} {reply.text}")

    async def cancel(self, work: Errand) -> None:
        work.cancelled = True
        await self.ask("POST", f"/work/{work.id}/cancel", {"reason": "changed my mind"})

    async def look(self, work: Errand) -> bool:
        """Whether it is over. What was told of its end once must be told always."""
        reply = await self.ask("GET", f"/work/{work.id}")
        if reply.status_code != 200:
            self.faults.append(f"{work.id} is not known: {reply.status_code} {reply.text}")
            return True
        record = reply.json()
        if record["status"] not in OVER:
            return False
        if work.end is not None and work.end != record:
            self.faults.append(f"{work.id} ended as {work.end} and then as {record}")
        work.end = record
        return True
