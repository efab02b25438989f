"""Very many guests in one process, each as small as can be: they attach, acknowledge, answer pings and wait."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any, cast

from agent_common.protocol.work import ConstraintAck, Lines, Offer, compute_mac, decode, encode, new_sid, to_rfc3339

from .host import SOCKET
from .programs import obey, run


class Guest(asyncio.Protocol):
    """One of them."""

    def __init__(self, name: str, key: str) -> None:
        self._name, self._key = name, key.encode()
        self._sid = new_sid()
        self._lines = Lines()
        self._transport: asyncio.WriteTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        now = to_rfc3339(time.time_ns() // 1_000_000)
        offer = Offer(1, 1 << 20, self._sid)
        self._send({"signal": "ready", "agent_id": self._name, "observed_at": now, "detail": str(offer)})

    def data_received(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            assert isinstance(line, bytes)
            self._hear(decode(line))

    def _hear(self, frame: dict[str, Any]) -> None:
        match frame:
            case {"ctl": "welcome", "challenge": challenge, "epoch": epoch}:
                mac = compute_mac(self._key, challenge=challenge, sid=self._sid, agent_id=self._name, epoch=epoch)
                self._send({"ctl": "attach", "sid": self._sid, "mac": mac})
                self._send({"ctl": "resume", "running": [], "unacked": []})
            case {"ctl": "ping", "n": n}:
                self._send({"ctl": "pong", "n": n})
            case {"payload_ref": _, "version": version, "hash": digest}:
                now = to_rfc3339(time.time_ns() // 1_000_000)
                ack = ConstraintAck(version=version, hash=digest, agent_id=self._name, observed_at=now)
                self._transport.write(encode(ack))
            case _:
                return

    def _send(self, frame: dict[str, Any]) -> None:
        self._transport.write(encode(frame))


async def main(folder: Path) -> None:
    keys: dict[str, str] = json.loads((folder / "keys.json").read_text("utf-8"))
    names, guests = iter(keys), list[Guest]()

    async def attach(number: int) -> int:
        """So many more; how many there are."""
        loop = asyncio.get_running_loop()
        for _, name in zip(range(number), names, strict=False):
            guests.append(Guest(name, keys[name]))
            await loop.create_unix_connection(lambda: guests[-1], str(folder / SOCKET))
        return len(guests)

    await obey("crowd", folder, {"attach": attach})


if __name__ == "__main__":
    run(main)
