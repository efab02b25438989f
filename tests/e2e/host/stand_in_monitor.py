"""Stands in for Firecracker: takes its API requests, and runs the guest's runtime as a process instead of a machine.

Usage: python stand_in_monitor.py --api-sock PATH --id ID

The runtime is what the boot document says, with the vsock addresses replaced by the sockets that they lead to. It dies
with this process. The socket for the host's programs answers port 1024 as the guest's init does, and port 8400 leads to
the runtime's HTTP server.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agent_host.fleet import DIE_WITH_PARENT
from agent_host.fleet.machine.disks import MAGIC

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Monitor:
    def __init__(self) -> None:
        self.given: dict[str, dict[str, Any]] = {}
        self.runtime: asyncio.Future[asyncio.subprocess.Process] = asyncio.get_running_loop().create_future()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]

    async def answer_api(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().lower().split("\r\n")
                length = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
                path = head.split()[1].decode()
                self.given[path] = json.loads(await reader.readexactly(length))
                if path == "/actions":
                    await self.start()
                writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except asyncio.IncompleteReadError:
            writer.close()

    def boot(self) -> tuple[list[str], dict[str, str]]:
        """The command and the environment of the runtime."""
        raw = Path(self.given["/drives/config"]["path_on_host"]).read_bytes()
        (length,) = struct.unpack_from("<Q", raw, len(MAGIC))
        document = json.loads(raw[len(MAGIC) + 8 :][:length])
        home = Path(self.given["/drives/data"]["path_on_host"]).with_name("guest")
        home.mkdir(exist_ok=True)
        uds = self.given["/vsock"]["uds_path"]
        env = {**document["env"], "AGENT_DATA_DIR": str(home), "AGENT_PORT": str(self.port)}
        env |= {"AGENT_MESH_URL": f"http+unix://{quote(f'{uds}_8420', safe='')}", "PYTHONPATH": os.getcwd()}
        env["AGENT_MEDIATION_URL"] = f"unix:{uds}_2048"
        for name, variable in (
            ("token", "AGENT_TOKEN_FILE"),
            ("mesh.token", "AGENT_MESH_TOKEN_FILE"),
            ("mediation.key", "AGENT_MEDIATION_KEY_FILE"),
        ):
            (home.parent / name).write_text(document["secrets"][name])
            env[variable] = str(home.parent / name)
        return [*DIE_WITH_PARENT, str(os.getpid()), *document["command"]], env

    async def start(self) -> None:
        command, env = self.boot()
        await asyncio.start_unix_server(self.answer_host, self.given["/vsock"]["uds_path"])
        self.runtime.set_result(await asyncio.create_subprocess_exec(*command, env=env))

    async def answer_host(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        port = int((await reader.readline()).split()[1])
        writer.write(b"OK 1\n")
        if port == 8400:
            await self.relay((reader, writer))
            return
        question = json.loads(await reader.readline())
        writer.write(json.dumps({"ok": True}).encode() + b"\n")
        writer.close()
        if question["do"] == "stop":
            (await self.runtime).terminate()

    async def relay(self, host: Streams) -> None:
        guest = await asyncio.open_connection("127.0.0.1", self.port)
        await asyncio.gather(copy(host[0], guest[1]), copy(guest[0], host[1]), return_exceptions=True)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


async def main() -> None:
    monitor = Monitor()
    await asyncio.start_unix_server(monitor.answer_api, sys.argv[2])
    code = await (await monitor.runtime).wait()
    print(f"agent-init: the runtime ended with exit code {code}", flush=True)


asyncio.run(main())
