"""What machines are made of: seats, images, disks, settings of the guest, consoles."""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from agent_host.errors import StartError
from agent_host.fleet.console import MOST_BYTES, Console
from agent_host.fleet.driver import LaunchRequest, StartFailed
from agent_host.fleet.drivers.qemu import QemuFiles, qemu_command
from agent_host.fleet.machine import Image, SocketDir, boot_document, load_image, write_config

LAUNCH = LaunchRequest(
    "writer", "", Path("/ws"), "t-secret", "http://h", "m-secret", mediation_url="unix:/x", mediation_key="k-secret"
)


def folder_with(tmp_path: Path, config: object) -> Path:
    for name in ("vmlinuz", "initrd.gz", "rootfs.ext4"):
        (tmp_path / name).touch()
    (tmp_path / "image.json").write_text(json.dumps(config))
    return tmp_path


def test_an_image_is_what_its_config_says(tmp_path: Path) -> None:
    config = {"Entrypoint": ["tini", "--"], "Cmd": ["serve"], "User": "10001:10002", "Env": ["A=b=c"], "Labels": {}}
    image = load_image(folder_with(tmp_path, config))
    assert (image.command, image.uid, image.gid, image.cwd) == (("tini", "--", "serve"), 10001, 10002, "/")
    assert image.env["A"] == "b=c"
    assert "/usr/bin" in image.env["PATH"]


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "neither Entrypoint nor Cmd"),
        ({"Cmd": ["x"], "User": "agent"}, "must be numeric"),
        ({"Cmd": "x"}, "list"),
        ([], "object"),
    ],
)
def test_a_config_that_cannot_be_used_says_why(tmp_path: Path, config: object, why: str) -> None:
    with pytest.raises(StartError, match=rf"MESH_VM_IMAGE: .*image.json(.|\n)*{why}"):
        load_image(folder_with(tmp_path, config))


def test_an_image_without_a_kernel_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="has no vmlinuz"):
        load_image(tmp_path)


def test_a_seat_is_the_same_always_and_short() -> None:
    seat = SocketDir.for_workspace(Path("/var/lib/mesh/vm"), "writer")
    assert (
        seat
        == SocketDir.for_workspace(Path("/var/lib/mesh/vm"), "writer")
        != SocketDir.for_workspace(Path("/var/lib/mesh/vm"), "reader")
    )
    with pytest.raises(StartError, match="too long"):
        SocketDir.for_workspace(Path("/" + "x" * 90), "writer")


def test_the_guest_is_led_over_vsock_and_its_secrets_are_files() -> None:
    image = Image(Path("/i"), ("agent",), 1, 2, "/data", {"PATH": "/bin"})
    operator = {"AGENT_MODEL": "m", "AGENT_TOKEN": "other", "OPENAI_API_KEY": "secret", "AGENT_MESH_URL": "http://x"}
    document = boot_document(LAUNCH, image, operator, 5)
    env = document["env"]
    assert (env["AGENT_MESH_URL"], env["AGENT_MEDIATION_URL"]) == ("http+vsock://2:8420", "vsock://2:2048")
    assert env["AGENT_MODEL"] == "m"
    chosen = replace(LAUNCH, settings={"AGENT_MODEL": "other", "AGENT_ROLE": "editor"})
    env = boot_document(chosen, image, operator, 5)["env"]
    assert (env["AGENT_MODEL"], env["AGENT_ROLE"]) == ("other", "editor")
    assert not any(secret in json.dumps(env) for secret in ("t-secret", "m-secret", "k-secret", "OPENAI"))
    assert document["secrets"] == {"token": "t-secret", "mesh.token": "m-secret", "mediation.key": "k-secret"}


def test_the_config_disk_is_for_the_host_alone_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "config.img"
    write_config(path, {"a": 1})
    raw = path.read_bytes()
    assert (path.stat().st_mode & 0o777, len(raw) % 4096) == (0o600, 0)
    (length,) = struct.unpack_from("<Q", raw, 10)
    assert (raw[:10], json.loads(raw[18 : 18 + length])) == (b"AGENTBOOT1", {"a": 1})
    with pytest.raises(StartFailed):
        write_config(path, {"a": "x" * (1 << 20)})


def test_a_machine_has_no_card_and_no_secret_on_its_command_line() -> None:
    line = " ".join(qemu_command("qemu", "tcg", QemuFiles(3, 4, 5, 6, 7, 8, 9, 10), 256))
    assert "netdev" not in line
    assert "-nic" not in line
    assert "-nodefaults" in line
    assert "-add-fd fd=5,set=0 -drive if=none,id=disk0,format=raw,file=/dev/fdset/0,read-only=on" in line
    assert (
        "-add-fd fd=7,set=2 -add-fd fd=8,set=2 -drive if=none,id=disk2,format=raw,file=/dev/fdset/2,read-only=off"
        in line
    )
    assert "path=" not in line
    assert "secret" not in line


async def test_a_console_cannot_grow(tmp_path: Path) -> None:
    console, reader = Console(tmp_path / "console.log"), asyncio.StreamReader(limit=1 << 30)
    console.begin()
    console.follow(reader)
    for _ in range(50):
        reader.feed_data(b"x" * (1 << 16))
    reader.feed_data(b"the end")
    reader.feed_eof()
    await console.close()
    assert console.read_tail(7) == "the end"
    assert len(console.read_tail(1 << 30)) <= 2 * MOST_BYTES


async def test_output_is_written_after_what_came_together_with_it(tmp_path: Path) -> None:
    console, reader = Console(tmp_path / "console.log"), asyncio.StreamReader()
    console.follow(reader)
    came = asyncio.Event()

    async def is_written() -> bool:
        await came.wait()
        return console.path.exists()

    answer = asyncio.create_task(is_written())
    await asyncio.sleep(0)  # both wait
    reader.feed_data(b"a line")
    came.set()
    assert not await answer
    reader.feed_eof()
    await console.close()
    assert console.read_tail(10) == "a line"


async def test_a_file_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    console, reader = Console(tmp_path / "console.log"), asyncio.StreamReader()
    console.follow(reader)
    for line in ("one", "two"):
        reader.feed_data(line.encode())
        while not console.path.exists():
            await asyncio.sleep(0)
        assert console.path.read_text() == line
        console.path.unlink()
    reader.feed_eof()
    await console.close()
