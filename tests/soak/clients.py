"""The crowd: threads that send, watch, cancel and repeat at random, each by dice of its own."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import httpx

from agent_runtime.protocol import chunks as c
from tests.e2e.live import Stream, text_of, types

from .ledger import Fork, Ledger, Sent
from .line import Line
from .lives import Lives
from .model import Orders, answer_to
from .schedule import Moments

ROOMS = 3
OPEN = 3
"""Tasks of one client that may be unfinished before it waits for one."""
TERMINAL = ("complete", "failed", "cancelled", "timeout")


class Reader:
    """Reads a stream to its end, critically."""

    def __init__(self, response: httpx.Response, heard: Callable[[c.AnyChunk], None] = lambda _: None) -> None:
        self._stream, self._heard = Stream(response), heard

    def rest(self) -> str:
        """All text of the stream. A turn that was cancelled in the queue has nothing but an end."""
        while (chunk := self._stream.next()) is not None:
            self._heard(chunk)
        told = [chunk for chunk in self._stream.read if not (isinstance(chunk, c.DataChunk) and chunk.transient)]
        if not (self._stream.done and types(told) == ["abort"]):
            self._stream.rest()
        return text_of(told)


class Client(threading.Thread):
    """One caller. What it does is a function of the seed; what comes of it is not."""

    def __init__(self, number: int, seed: int, lives: Lives, ledger: Ledger, moments: Moments) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self._number, self._seed = number, seed
        self._lives, self._ledger, self._moments = lives, ledger, moments
        self._leaving = threading.Event()
        self._mine: list[Sent] = []
        self._count = 0

    def leave(self) -> None:
        """Finishes what it is at and goes."""
        self._leaving.set()

    def run(self) -> None:
        acts: dict[Callable[[], None], int] = {
            self._task: 22, self._chat: 14, self._burst: 10, self._chat_stream: 10, self._watch: 10,
            self._cancel: 6, self._result: 8, self._repeat: 10, self._elbow: 4, self._ask_politely: 3,
            self._abort: 5, self._unqueue: 5, self._fork: 4,
        }  # fmt: skip
        with Line(self._lives, self._ledger, self._leaving) as self._line:
            while not self._leaving.is_set():
                self._count += 1
                self._dice = random.Random(f"{self._seed}/{self._number}/{self._count}")
                act = self._dice.choices(list(acts), list(acts.values()))[0]
                try:
                    act()
                except Exception as error:  # noqa: BLE001  whatever goes wrong for a caller is a finding
                    self._ledger.fault(f"client {self._number}, {act.__name__}: {type(error).__name__}: {error}")
                self._leaving.wait(self._dice.uniform(0, 0.1))

    # -- work

    def _task(self) -> None:
        if sum(sent.told is None for sent in self._mine if not sent.room) >= OPEN:
            self._result()
            return
        orders = self._orders("task", self._dice.randint(1, 5))
        short = self._dice.random() < 0.1
        body = {
            "task_id": orders.owner,
            "workflow_id": "soak",
            "step_id": "one",
            "task_type": "soak",
            "input_data": orders.json(),
            "timeout": 2.0 if short else 300.0,
        }
        sent = self._ledger.task(orders, body)
        self._mine.append(sent)
        self._post_task(sent)

    def _chat(self) -> None:
        self._post_chat(self._message(self._dice.randrange(ROOMS)), wait=self._dice.choice((0, 0, 1.0)))

    def _burst(self) -> None:
        """Several messages to one session, each sent when the one before was acknowledged."""
        room = self._dice.randrange(ROOMS)
        for _ in range(3):
            self._post_chat(self._message(room), wait=0)

    def _chat_stream(self) -> None:
        sent = self._message(self._dice.randrange(ROOMS))
        self._follow(sent, "POST", "/chat/stream", sent.body)

    def _watch(self) -> None:
        sent = self._some(self._ledger.tasks)
        if sent is not None:
            self._follow(sent, "GET", f"/task/{sent.id}/stream", None)

    def _result(self) -> None:
        open_ones = [sent for sent in self._mine if not sent.room and sent.told is None]
        if open_ones:
            sent = open_ones[0]
            reply = self._line.ask("GET", "/result", task_id=sent.id, wait=1)
            if reply.status_code == 200:
                self._ledger.end(sent, task_end(reply.json()))
            elif reply.status_code != 202:
                self._unexpected(sent, reply)

    # -- interference

    def _cancel(self) -> None:
        sent = self._some(self._ledger.tasks)
        if sent is not None:
            sent.stopped = True
            reply = self._line.ask("POST", f"/task/{sent.id}/cancel")
            self._take_record(sent, reply)

    def _elbow(self) -> None:
        """A message that does not wait for the running turn to finish."""
        sent = self._message(self._dice.randrange(ROOMS))
        with self._ledger.stopping(sent.room):
            self._post_chat(sent, wait=0, on_busy="interrupt")

    def _ask_politely(self) -> None:
        """A message that goes away when the session is busy."""
        sent = self._message(self._dice.randrange(ROOMS))
        self._post_chat(sent, wait=0, on_busy="reject")

    def _abort(self) -> None:
        room = self._ledger.look_at(self._dice.randrange(ROOMS))
        with self._ledger.stopping(room):
            reply = self._line.ask("POST", f"/chat/{room}/abort")
        if reply.status_code not in (200, 404):
            self._ledger.fault(f"abort of {room} was answered with {reply.status_code}: {reply.text}")

    def _unqueue(self) -> None:
        """Takes a message back that may still be queued."""
        sent = self._some(self._ledger.messages)
        if sent is not None:
            sent.stopped = True
            reply = self._line.ask("DELETE", f"/chat/{sent.room}/queue/{sent.id}")
            if reply.status_code == 200:
                sent.withdrawn = time.time()
            elif reply.status_code not in (404, 409):
                self._unexpected(sent, reply)

    def _fork(self) -> None:
        """Copies a session and says something to the copy."""
        room = self._ledger.look_at(self._dice.randrange(ROOMS))
        reply = self._line.ask("POST", f"/sessions/{room}/fork", {})
        if reply.status_code in (200, 201):
            self._ledger.forks.append(Fork(reply.json()["id"], room, reply.json()))
        elif reply.status_code not in (404, 409):
            self._ledger.fault(f"fork of {room} was answered with {reply.status_code}: {reply.text}")

    def _repeat(self) -> None:
        """Sends something again that was answered long ago."""
        if self._dice.random() < 0.5:
            if (sent := self._some(self._ledger.tasks)) is not None:
                self._post_task(sent)
        elif (sent := self._some(self._ledger.messages)) is not None:
            self._post_chat(sent, wait=0)

    # -- how

    def _orders(self, kind: str, steps: int) -> Orders:
        kinds = ("bash", "bash", "read", "write", "bash+read", "write+bash")
        plan = tuple(self._dice.choice(kinds) for _ in range(steps))
        return Orders(
            f"{kind}-{self._number}-{self._count}-{len(self._mine)}",
            plan,
            words=self._dice.choice((2, 5, 20)),
            pace=self._dice.choice((0.0, 0.0, 0.01, 0.03)),
            linger=self._dice.choice((0.0, 0.0, 0.1)),
        )

    def _message(self, room: int) -> Sent:
        orders = self._orders("chat", self._dice.choice((0, 0, 1, 2)))
        body = {"message": orders.text(), "message_id": orders.owner, "session_id": self._ledger.room(room)}
        sent = self._ledger.message(orders, body)
        self._mine.append(sent)
        return sent

    def _some(self, kind: dict[str, Sent]) -> Sent | None:
        """Anybody's, the latest ones more often; only such as were acknowledged."""
        known = [sent for sent in list(kind.values())[-40:] if sent.acked is not None]
        return self._dice.choice(known) if known else None

    def _post_task(self, sent: Sent) -> None:
        known = sent.acked is not None
        reply = self._line.ask("POST", "/task", sent.body)
        if reply.status_code == 202:
            if known:
                self._ledger.fault(f"{sent.id} was acknowledged before and is taken as new: {reply.text}")
            self._acknowledged(sent, {"session_id": reply.json()["session_id"]})
        else:
            self._take_record(sent, reply)

    def _take_record(self, sent: Sent, reply: httpx.Response) -> None:
        if reply.status_code != 200:
            self._unexpected(sent, reply)
            return
        record = reply.json()
        self._acknowledged(sent, {"session_id": record["session_id"]})
        if record["status"] in TERMINAL:
            self._ledger.end(sent, task_end(record))

    def _post_chat(self, sent: Sent, wait: float, on_busy: str = "queue") -> None:
        reply = self._line.ask("POST", "/chat", {**sent.body, "wait": wait, "on_busy": on_busy})
        answer = reply.json()
        if reply.status_code == 202:
            self._acknowledged(sent, chat_names(answer))
        elif reply.status_code == 200 or answer.get("code") == "interrupted":
            self._acknowledged(sent, chat_names(answer))
            self._ledger.end(sent, chat_end(answer))
        elif on_busy == "reject" and answer.get("code") == "session_busy":
            sent.refused = True
        else:
            self._unexpected(sent, reply)

    def _follow(self, sent: Sent, method: str, path: str, body: Any) -> None:
        """Reads a stream to its end, attaching again as often as it breaks."""
        while True:
            life = self._lives.number
            try:
                with self._line.stream(method, path, body) as response:
                    if response.status_code in (429, 503):
                        self._leaving.wait(0.05)
                        continue
                    if response.status_code != 200:
                        response.read()
                        self._unexpected(sent, response)
                        return
                    reader = Reader(response, lambda chunk: self._heard(sent, chunk))
                    self._ledger.streams.append((sent, reader.rest()))
                    return
            except httpx.TransportError as error:
                self._line.broken(f"the stream of {sent.id}", life, error)

    def _heard(self, sent: Sent, chunk: c.AnyChunk) -> None:
        """Who sent the message learns from the first chunk that it is on disk."""
        if isinstance(chunk, c.Start) and sent.room and "session_id" in (chunk.messageMetadata or {}):
            self._acknowledged(sent, chat_names(chunk.messageMetadata or {}))
        if isinstance(chunk, c.TextDelta):
            self._moments.happened("delta")

    def _acknowledged(self, sent: Sent, names: dict[str, Any]) -> None:
        self._ledger.acknowledge(sent, names)
        self._moments.happened("ack")

    def _unexpected(self, sent: Sent, reply: httpx.Response) -> None:
        what = f"{reply.request.method} {reply.request.url.path}"
        self._ledger.fault(f"{what} for {sent.id} was answered with {reply.status_code}: {reply.text[:500]}")


def chat_names(answer: dict[str, Any]) -> dict[str, Any]:
    return {"session_id": answer["session_id"], "message_id": answer["message_id"]}


def chat_end(answer: dict[str, Any]) -> dict[str, Any]:
    """What never changes about the end of a chat turn."""
    return {"response": answer["response"], "finish_reason": answer["finish_reason"]}


def task_end(record: dict[str, Any]) -> dict[str, Any]:
    """What never changes about the end of a task."""
    return {name: record[name] for name in ("status", "error_code", "limit", "result", "session_id")}


def expected_result(orders: Orders) -> dict[str, Any]:
    """What a task that is complete must say."""
    return {"text": answer_to(orders)}
