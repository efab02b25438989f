"""What a machine's own init answers, once its guest is taken: a host stops it all the same, takes its tokens away, and
serves others meanwhile. The machine is a program that takes Firecracker's orders and boots nothing."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from agent_host.fleet.machine.boot import CONTROL_PORT
from tests.e2e.live import eventually
from tests.integration.host.live import Host

from .test_host_input import SmallHost

ANSWERS = {
    "brackets": b"[" * 200_000 + b"\n",
    "long-number": b'{"code": ' + b"9" * 100_000 + b"}\n",
    "wide": b'{"x":[' + b'{"":0},' * (7 * 2**20 // 7) + b"0]}\n",
    "no-text": b"\xff\xfe\n",
    "no-end": b"x" * (8 << 20),
}
MACHINE = """#!{python}
import http.server, json, os, socket, socketserver, sys, threading
FOLDER = {folder!r}

def guest(path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        while True:
            with listener.accept()[0] as host, host.makefile("rb") as lines:
                if lines.readline() != b"CONNECT {port}\\n":
                    continue  # no agent answers here
                host.sendall(b"OK 1\\n")
                asked = json.loads(lines.readline())["do"]
                with open(FOLDER + "/asked", "a") as log:
                    log.write(asked + "\\n")
                try:
                    host.sendall(b"{{}}\\n" if asked == "ping" else open(FOLDER + "/answer", "rb").read())
                except OSError:
                    pass  # the host has heard enough

class Orders(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/vsock":
            threading.Thread(target=guest, args=(body["uds_path"],), daemon=True).start()
        self.send_response(204)
        self.end_headers()

    def address_string(self):
        return "the host"

    def log_message(self, *_):
        pass

open(FOLDER + "/pid", "w").write(str(os.getpid()))
socketserver.ThreadingUnixStreamServer(sys.argv[sys.argv.index("--api-sock") + 1], Orders).serve_forever()
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="m") as made:
        yield Path(made)


@pytest.fixture(scope="module")
def host(folder: Path) -> Iterator[SmallHost]:
    (image := folder / "image").mkdir()
    for name in ("vmlinuz", "vmlinux", "initrd.gz", "rootfs.ext4"):
        (image / name).touch()
    (image / "image.json").write_text('{"Cmd": ["agent"]}')
    program = folder / "firecracker"
    program.write_text(MACHINE.format(python=sys.executable, folder=str(folder), port=CONTROL_PORT))
    program.chmod(0o755)
    machines = {"MESH_VM_IMAGE": image, "MESH_VM_VOLUME": 64, "MESH_FIRECRACKER": program}
    with SmallHost(folder / "data", MESH_PROVIDER="demo", MESH_STOP_GRACE=0.1, **machines) as host:
        yield host


def token_of(folder: Path) -> str:
    """The token that the only machine there is was booted with."""
    [document] = (folder / "data" / "vm").glob("*/config.img")
    found = re.search(rb"mesh_[\w-]{20,}", document.read_bytes())
    assert found is not None
    return found[0].decode()


def accepted(host: Host, token: str) -> bool:
    with host.client(token) as client:
        return client.get("/v1/models").status_code == 200


@pytest.mark.parametrize("name", ANSWERS)
def test_stop_ends_the_machine_and_its_tokens_whatever_it_answers(host: SmallHost, folder: Path, name: str) -> None:
    (folder / "answer").write_bytes(ANSWERS[name])
    made = host.operator.post("/workspaces", json={"id": f"evil-{name}", "driver": "firecracker"})
    assert made.status_code == 201, made.text
    started = host.operator.post(f"/workspaces/evil-{name}/start")
    assert started.status_code == 200, started.text
    token, machine = token_of(folder), psutil.Process(int((folder / "pid").read_text()))
    assert accepted(host, token)
    with host.watched(host.token("good")):
        stopped = host.operator.post(f"/workspaces/evil-{name}/stop")
    assert (stopped.status_code, stopped.json()["state"]) == (200, "stopped"), stopped.text
    assert (folder / "asked").read_text().splitlines()[-1] == "stop"
    eventually(lambda: not machine.is_running())
    assert not accepted(host, token)
