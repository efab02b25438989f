"""The crowd: threads that send, watch, cancel and repeat at random, each by dice of its own."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from .courier import Courier
from .ledger import Fork, Ledger, Sent
from .line import Line
from .lives import Lives
from .model import Orders
from .schedule import Moments

ROOMS = 3
OPEN = 3
"""Tasks of one client that may be unfinished before it waits for one."""
SHORT = 2.0
"""Seconds that some tasks get, so that they meet their deadline."""
KINDS = ("bash", "bash", "read", "write", "bash+read", "write+bash")


class Client(threading.Thread):
    """One caller. What it tries is a function of the seed; what comes of it is not."""

    def __init__(self, number: int, seed: int, lives: Lives, ledger: Ledger, moments: Moments) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self._number, self._seed, self._ledger = number, seed, ledger
        self._leaving = threading.Event()
        self._courier = Courier(Line(lives, ledger), lives, ledger, moments)
        self._mine: list[Sent] = []
        self._count = 0

    def leave(self) -> None:
        """Finishes what it is at and goes."""
        self._leaving.set()

    def run(self) -> None:
        acts: dict[Callable[[], None], int] = {
            self._task: 22, self._chat: 14, self._burst: 10, self._chat_stream: 10, self._watch: 10,
            self._cancel: 6, self._result: 8, self._repeat: 10, self._elbow: 4, self._ask_politely: 3,
            self._abort: 5, self._unqueue: 5, self._fork: 4, self._look_in: 6,
        }  # fmt: skip
        with self._courier:
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
        if len(self._open_tasks()) >= OPEN:
            self._result()
            return
        orders = self._orders("task", self._dice.randint(1, 5))
        body = {
            "task_id": orders.owner,
            "workflow_id": "soak",
            "step_id": "one",
            "task_type": "soak",
            "input_data": orders.json(),
            "timeout": SHORT if self._dice.random() < 0.1 else 300.0,
        }
        sent = self._ledger.task(orders, body)
        self._mine.append(sent)
        self._courier.task(sent)

    def _chat(self) -> None:
        self._courier.chat(self._message(), wait=self._dice.choice((0, 0, 1.0)))

    def _burst(self) -> None:
        """Several messages to one session, each sent when the one before was acknowledged."""
        room = self._dice.randrange(ROOMS)
        for _ in range(3):
            self._courier.chat(self._message(room))

    def _chat_stream(self) -> None:
        sent = self._message()
        self._courier.follow(sent, "POST", "/chat/stream", sent.body)

    def _watch(self) -> None:
        if (sent := self._some(self._ledger.tasks)) is not None:
            self._courier.follow(sent, "GET", f"/task/{sent.id}/stream")

    def _look_in(self) -> None:
        """Whatever a session is at right now."""
        self._courier.look_in(self._ledger.look_at(self._dice.randrange(ROOMS)))

    def _result(self) -> None:
        if waiting := self._open_tasks():
            self._courier.result(waiting[0])

    # -- interference

    def _cancel(self) -> None:
        if (sent := self._some(self._ledger.tasks, under_way=True)) is not None:
            sent.stopped = True
            self._courier.record(sent, self._courier.line.ask("POST", f"/task/{sent.id}/cancel"))

    def _elbow(self) -> None:
        """A message that does not wait for the running turn to finish."""
        sent = self._message()
        with self._ledger.stopping(sent.room):
            self._courier.chat(sent, on_busy="interrupt")

    def _ask_politely(self) -> None:
        """A message that goes away when the session is busy."""
        self._courier.chat(self._message(), on_busy="reject")

    def _abort(self) -> None:
        room = self._ledger.look_at(self._dice.randrange(ROOMS))
        with self._ledger.stopping(room):
            reply = self._courier.line.ask("POST", f"/chat/{room}/abort")
        if reply.status_code == 200:
            self._ledger.aborts += reply.json()["aborted"]
        elif reply.json().get("code") != "unknown_session":
            self._ledger.fault(f"abort of {room} was answered with {reply.status_code}: {reply.text}")

    def _unqueue(self) -> None:
        """Takes a message back that may still be queued."""
        if (sent := self._some(self._ledger.messages, under_way=True)) is not None:
            sent.stopped = True
            reply = self._courier.line.ask("DELETE", f"/chat/{sent.room}/queue/{sent.id}")
            if reply.status_code == 200:
                sent.withdrawn = time.time()
            elif reply.json().get("code") != "not_queued":
                self._courier.unexpected(sent, reply)

    def _fork(self) -> None:
        """Copies a session and goes on talking in the copy."""
        said = [sent.room for sent in list(self._ledger.messages.values())[-200:]]
        if not said:
            return
        room = self._dice.choice(said)
        reply = self._courier.line.ask("POST", f"/sessions/{room}/fork", {})
        if reply.status_code == 201:
            child = reply.json()["id"]
            self._ledger.forks.append(Fork(child, room))
            self._courier.chat(self._message(child))
        elif reply.json().get("code") not in ("session_busy", "unknown_session"):
            self._ledger.fault(f"fork of {room} was answered with {reply.status_code}: {reply.text}")

    def _repeat(self) -> None:
        """Sends something again that was answered long ago."""
        if self._dice.random() < 0.5:
            if (sent := self._some(self._ledger.tasks)) is not None:
                self._courier.task(sent)
        elif (sent := self._some(self._ledger.messages)) is not None:
            self._courier.chat(sent)

    # -- what

    def _orders(self, kind: str, steps: int) -> Orders:
        return Orders(
            f"{kind}-{self._number}-{self._count}-{len(self._mine)}",
            tuple(self._dice.choice(KINDS) for _ in range(steps)),
            words=self._dice.choice((2, 5, 20)),
            pace=self._dice.choice((0.0, 0.0, 0.01, 0.03)),
            linger=self._dice.choice((0.0, 0.0, 0.1)),
        )

    def _message(self, room: int | str | None = None) -> Sent:
        orders = self._orders("chat", self._dice.choice((0, 0, 1, 2)))
        number = self._dice.randrange(ROOMS) if room is None else room
        name = number if isinstance(number, str) else self._ledger.room(number)
        sent = self._ledger.message(orders, {"message": orders.text(), "message_id": orders.owner, "session_id": name})
        self._mine.append(sent)
        return sent

    def _open_tasks(self) -> list[Sent]:
        return [sent for sent in self._mine if not sent.room and sent.told is None]

    def _some(self, kind: dict[str, Sent], *, under_way: bool = False) -> Sent | None:
        """Anybody's among the latest that were acknowledged; if `under_way`, one whose end nobody was told."""
        known = [sent for sent in list(kind.values())[-40:] if sent.acked is not None]
        if under_way:
            known = [sent for sent in known[-10:] if sent.told is None]
        return self._dice.choice(known) if known else None
