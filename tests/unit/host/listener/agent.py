"""A small agent for the listener's tests: strict dialect with the extensions, frame by frame, over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from agent_common.protocol.work import compute_mac, new_sid

PATIENCE = 60.0
NOW = "2026-11-22T02:19:05Z"
Frame = dict[str, Any]


class Agent:
    """One connection of it."""

    def __init__(
        self, address: object, name: str, key: str | None = None, *, window: int = 4, patience: float = PATIENCE
    ) -> None:
        self.address, self.name, self.key, self.window = str(address), name, key, window
        self.patience = patience
        """Seconds without a frame after which it gives up."""
        self.sid = new_sid()
        self.epoch = 0
        self.welcome: Frame = {}
        self.verdicts: dict[str, str] = {}
        self.seen: list[Frame] = []
        self.answers_pings = True
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        if self.address.startswith("unix:"):
            opened = await asyncio.open_unix_connection(self.address.removeprefix("unix:"), limit=1 << 24)
        else:
            host, port = self.address.removeprefix("tcp://").rsplit(":", 1)
            opened = await asyncio.open_connection(host, int(port), limit=1 << 24)
        self.reader, self.writer = opened
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            return

    def abort(self) -> None:
        self.writer.transport.abort()

    # ---------------------------------------------------------------- frames

    def send(self, **frame: Any) -> None:
        self.raw(json.dumps(frame).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def signal(self, name: str, request_id: str | None = None, **more: Any) -> None:
        given = {"request_id": request_id} if request_id else {}
        self.send(signal=name, agent_id=self.name, observed_at=NOW, **given, **more)

    async def receive(self) -> Frame | None:
        """The next frame but pings; None at the end."""
        async with asyncio.timeout(self.patience):
            while True:
                try:
                    line = await self.reader.readline()
                except OSError:
                    return None
                if not line:
                    return None
                frame = json.loads(line)
                if frame.get("ctl") == "ping":
                    if self.answers_pings:
                        self.send(ctl="pong", n=frame["n"])
                    continue
                self.seen.append(frame)
                return frame

    async def expect(self, fits: str | Callable[[Frame], bool]) -> Frame:
        """The next frame that fits; others are let go."""
        while True:
            frame = await self.receive()
            assert frame is not None, f"closed while waiting for {fits}; seen {self.seen[-5:]}"
            if fits(frame) if callable(fits) else frame.get("ctl") == fits:
                return frame

    async def request(self) -> Frame:
        return await self.expect(lambda frame: "principal" in frame)

    async def ended(self) -> bool:
        """Whether the host closes the connection."""
        while await self.receive() is not None:
            continue
        return True

    # ---------------------------------------------------------------- what an agent does

    def ready(self, *, offer: bool = True, detail: str | None = None) -> None:
        detail = detail or (f"med/1 win={self.window} max=1048576 sid={self.sid}" if offer else None)
        self.signal("ready", **({"detail": detail} if detail else {}))

    async def attach(self, running: tuple[str, ...] = (), unacked: tuple[str, ...] = ()) -> Self:
        """Everything up to `resume_ok`."""
        self.ready()
        self.welcome = await self.expect("welcome")
        self.epoch = self.welcome["epoch"]
        if challenge := self.welcome.get("challenge"):
            assert self.key is not None
            self.answer(challenge)
        self.send(ctl="resume", running=running, unacked=unacked)
        self.verdicts = (await self.expect("resume_ok"))["verdicts"]
        return self

    def answer(self, challenge: str, key: str | None = None) -> None:
        mac = compute_mac(
            (key or self.key or "").encode(),
            challenge=challenge,
            sid=self.sid,
            agent_id=self.welcome["agent_id"],
            epoch=self.welcome["epoch"],
        )
        self.send(ctl="attach", sid=self.sid, mac=mac)

    def accept(self, request: Frame) -> None:
        self.signal("accepting", request["request_id"])

    def result(self, request: Frame, status: str = "completed", content: str | None = None, **more: Any) -> None:
        said = content if content is not None else f"did {request['content']}"
        self.send(
            request_id=request["request_id"],
            status=status,
            content=said,
            completed_at=NOW,
            audit_ref=request["audit_ref"],
            **more,
        )

    def complete(self, request: Frame) -> None:
        self.signal("completed", request["request_id"])

    def acknowledge(self, frame: Frame, digest: str | None = None) -> None:
        self.send(version=frame["version"], hash=digest or frame["hash"], agent_id=self.name, observed_at=NOW)

    async def serve(self) -> None:
        """Does whatever comes, until the connection ends."""
        while (frame := await self.receive()) is not None:
            if "principal" in frame:
                self.accept(frame)
                self.result(frame)
                self.complete(frame)
            elif "payload_ref" in frame:
                self.acknowledge(frame)
            elif frame.get("ctl") == "drain":
                return
