"""Firecracker's orders against a server that holds them to its published interface. Nothing is booted."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from agent_host.fleet.driver import StartFailed
from agent_host.fleet.drivers.firecracker import boot_requests, send_requests
from agent_host.fleet.machine import Image, SocketDir


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class MachineConfig(Strict):
    vcpu_count: int
    mem_size_mib: int


class BootSource(Strict):
    kernel_image_path: str
    initrd_path: str | None = None
    boot_args: str | None = None


class Drive(Strict):
    drive_id: str
    path_on_host: str
    is_root_device: bool
    is_read_only: bool


class Vsock(Strict):
    guest_cid: int
    uds_path: str


class Action(Strict):
    action_type: str


SHAPES: dict[tuple[str, str], type[Strict]] = {
    ("PUT", "/machine-config"): MachineConfig,
    ("PUT", "/boot-source"): BootSource,
    ("PUT", "/drives/root"): Drive,
    ("PUT", "/drives/config"): Drive,
    ("PUT", "/drives/data"): Drive,
    ("PUT", "/vsock"): Vsock,
    ("PUT", "/actions"): Action,
}


class Server(ThreadingUnixStreamServer):
    heard: list[tuple[str, str, dict[str, Any]]]
    refuses: str = ""
    daemon_threads = True


class Handler(BaseHTTPRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "test"

    def log_message(self, format: str, *args: object) -> None:
        return

    def _take(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        shape = SHAPES.get((self.command, self.path))
        fault = "no such path" if shape is None else ""
        if self.path == self.server.refuses:
            fault = "The kernel file cannot be opened"
        try:
            if shape is not None:
                shape.model_validate(body)
        except ValueError as error:
            fault = str(error)
        if not fault:
            self.server.heard.append((self.command, self.path, body))  # before who asked can look
        said = json.dumps({"fault_message": fault}).encode() if fault else b""
        self.send_response(400 if fault else 204)
        if said:
            self.send_header("content-length", str(len(said)))
        self.end_headers()
        if said:
            self.wfile.write(said)

    do_PUT = _take  # noqa: N815


@pytest.fixture
def seat() -> Iterator[SocketDir]:
    with tempfile.TemporaryDirectory(prefix="f") as folder:
        made = SocketDir(Path(folder))
        yield made


@pytest.fixture
def server(seat: SocketDir) -> Iterator[Server]:
    with Server(str(seat.monitor), Handler) as made:
        made.heard = []
        threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        made.shutdown()


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image(tmp_path, ("agent",), 1, 1, "/", {})


async def test_a_machine_is_made_by_orders_that_the_interface_takes(
    server: Server, seat: SocketDir, image: Image
) -> None:
    await send_requests(seat.monitor, boot_requests(image, seat, Path("/v/data.ext4"), 256))
    paths = [path for _, path, _ in server.heard]
    assert paths == [
        "/machine-config",
        "/boot-source",
        "/drives/root",
        "/drives/config",
        "/drives/data",
        "/vsock",
        "/actions",
    ]
    said = {path: body for _, path, body in server.heard}
    assert said["/actions"] == {"action_type": "InstanceStart"}
    assert said["/vsock"] == {"guest_cid": 3, "uds_path": str(seat.uds)}
    assert [said[f"/drives/{name}"]["is_read_only"] for name in ("root", "config", "data")] == [True, True, False]
    assert not any("network" in path for path in paths)


async def test_what_it_refuses_is_said_in_its_own_words(server: Server, seat: SocketDir, image: Image) -> None:
    server.refuses = "/boot-source"
    with pytest.raises(StartFailed, match=r"refuses PUT /boot-source: 400 .*cannot be opened"):
        await send_requests(seat.monitor, boot_requests(image, seat, Path("/v"), 256))
    assert len(server.heard) == 1


async def test_one_that_is_not_there_is_an_error_of_the_connection(seat: SocketDir) -> None:
    with socket.socket(socket.AF_UNIX), pytest.raises(ConnectionError, match="does not answer PUT /actions"):
        await send_requests(seat.monitor, [("PUT", "/actions", {"action_type": "InstanceStart"})])
