"""Carries what a client sends, again and again until it is answered, and writes down what the answers promise."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import httpx

from agent_common.protocol import chunks as c

from .answers import TERMINAL, Reader, chat_end, chat_names, task_end
from .ledger import Ledger, Sent
from .line import BUSY, Line
from .lives import Lives
from .schedule import Moments


class Courier:
    """One client's hands. Not shared between threads."""

    def __init__(self, line: Line, lives: Lives, ledger: Ledger, moments: Moments) -> None:
        self.line, self.ledger = line, ledger
        self._lives, self._moments = lives, moments

    def __enter__(self) -> Self:
        self.line.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.line.__exit__(kind, error, traceback)

    def task(self, sent: Sent) -> None:
        """Posts an assignment, for the first time or again."""
        known = sent.acked is not None
        reply = self.line.ask("POST", "/task", sent.body)
        if reply.status_code != 202:
            self.record(sent, reply)
            return
        if known:
            self.ledger.fault(f"{sent.id} was acknowledged before and is taken as new: {reply.text}")
        self._acknowledged(sent, {"session_id": reply.json()["session_id"]})

    def record(self, sent: Sent, reply: httpx.Response) -> None:
        """Takes an answer that must be the record of a task."""
        if reply.status_code != 200:
            self.unexpected(sent, reply)
            return
        record = reply.json()
        self._acknowledged(sent, {"session_id": record["session_id"]})
        if record["status"] in TERMINAL:
            self.ledger.end(sent, task_end(record))

    def result(self, sent: Sent) -> None:
        """Waits a moment for the result of a task."""
        reply = self.line.ask("GET", "/result", task_id=sent.id, wait=1)
        if reply.status_code == 200:
            self.ledger.end(sent, task_end(reply.json()))
        elif reply.status_code != 202:
            self.unexpected(sent, reply)

    def chat(self, sent: Sent, wait: float = 0, on_busy: str = "queue") -> None:
        """Sends a message, for the first time or again."""
        reply = self.line.ask("POST", "/chat", {**sent.body, "wait": wait, "on_busy": on_busy})
        answer = reply.json()
        if reply.status_code == 202:
            self._acknowledged(sent, chat_names(answer))
        elif reply.status_code == 200 or answer.get("code") == "interrupted":
            self._acknowledged(sent, chat_names(answer))
            self.ledger.end(sent, chat_end(answer))
        elif on_busy == "reject" and answer.get("code") == "session_busy":
            sent.refused = True
        else:
            self.unexpected(sent, reply)

    def follow(self, sent: Sent, method: str, path: str, body: Any = None) -> None:
        """Reads a stream to its end, attaching again as often as it breaks."""
        while True:
            life = self._lives.number
            try:
                with self.line.stream(method, path, body) as response:
                    if response.status_code == 200:
                        text = Reader(response, lambda chunk: self._heard(sent, chunk)).rest()
                        self.ledger.streams.append((sent, text))
                        return
                    response.read()
                    if response.status_code not in BUSY:
                        self.unexpected(sent, response)
                        return
                self.line.later()
            except httpx.TransportError as error:
                self.line.broken(f"the stream of {sent.id}", life, error)

    def look_in(self, room: str) -> None:
        """Reads the stream of the turn that a session is at, if it is at one and lives on."""
        heard: list[c.AnyChunk] = []
        life = self._lives.number
        try:
            with self.line.stream("GET", f"/chat/{room}/stream") as response:
                if response.status_code != 200:
                    return
                text = Reader(response, heard.append).rest()
        except httpx.TransportError as error:
            self.line.broken(f"the stream of {room}", life, error)
            return
        for chunk in heard:
            if isinstance(chunk, c.Start):
                self.ledger.streams.append((self.ledger.messages[(chunk.messageMetadata or {})["message_id"]], text))

    def unexpected(self, sent: Sent, reply: httpx.Response) -> None:
        what = f"{reply.request.method} {reply.request.url.path}"
        self.ledger.fault(f"{what} for {sent.id} was answered with {reply.status_code}: {reply.text[:500]}")

    def _heard(self, sent: Sent, chunk: c.AnyChunk) -> None:
        """Who sent the message learns from the first chunk that it is on disk."""
        if isinstance(chunk, c.Start) and sent.room and "session_id" in (chunk.messageMetadata or {}):
            self._acknowledged(sent, chat_names(chunk.messageMetadata or {}))
        if isinstance(chunk, c.TextDelta):
            self._moments.happened("delta")

    def _acknowledged(self, sent: Sent, names: dict[str, Any]) -> None:
        self.ledger.acknowledge(sent, names)
        self._moments.happened("ack")
