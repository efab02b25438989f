"""A workspace's own address: there while its agent may attach, and not before or after."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path

import pytest

from agent_common.net import Tcp, Unix, listen_at
from agent_host.errors import Conflict

from .conftest import Room


async def test_nobody_finds_a_workspace_that_is_in_quarantine(room: Room, tmp_path: Path) -> None:
    path = tmp_path / "v.sock_2048"
    await room.enrol("b", listen=f"unix:{path}")
    assert path.is_socket()
    await room.listener.workspaces.quarantine("b", "odd")
    assert not path.exists()
    ready = await room.readiness("b")
    assert (ready.code, ready.target_reachable) == ("quarantined", False)
    await room.again()
    assert not path.exists()
    await room.listener.workspaces.unquarantine("b")
    assert path.is_socket()
    await room.attached("b")
    await room.again()
    assert path.is_socket()


async def test_an_address_that_is_taken_keeps_a_workspace_in_quarantine(room: Room, tmp_path: Path) -> None:
    path = tmp_path / "v.sock_2048"
    await room.enrol("b", listen=f"unix:{path}")
    await room.listener.workspaces.quarantine("b", "odd")
    with listen_at(Unix(str(path))):
        with pytest.raises(Conflict, match="is in use"):
            await room.listener.workspaces.unquarantine("b")
        assert room.listener.channels.get("b").fence == "quarantined"
    await room.listener.workspaces.unquarantine("b")
    assert path.is_socket()


async def test_a_port_is_the_same_afterwards(room: Room) -> None:
    await room.enrol("b", listen="tcp://127.0.0.1:0")
    before = room.listener.workspaces.address_of("b")
    await room.listener.workspaces.quarantine("b", "odd")
    await room.listener.workspaces.unquarantine("b")
    assert room.listener.workspaces.address_of("b") == before
    await room.attached("b")


async def test_an_address_that_was_missing_at_the_start_is_had_later(room: Room, tmp_path: Path) -> None:
    """Meanwhile it is not taken for the address that all share, where its agent would be refused."""
    folder = tmp_path / "sockets"
    folder.mkdir()
    await room.enrol("b", auth="none", listen=f"unix:{folder}/b.sock")
    await room.close()
    folder.rmdir()
    await room.open()
    ready = await room.listener.workspaces.readiness("b")
    assert ready is not None
    assert (ready.code, ready.target) == ("target_unreachable", f"unix:{folder}/b.sock")
    with pytest.raises(Conflict, match="make it first"):
        await room.listener.workspaces.resume("b")
    folder.mkdir()
    await room.listener.workspaces.resume("b")
    assert (folder / "b.sock").is_socket()
    await room.listener.workspaces.resume("b")


@pytest.mark.parametrize("moments", range(5))
async def test_a_connection_that_comes_while_an_address_closes_is_closed(room: Room, moments: int) -> None:
    """asyncio takes a connection in several moments; between any two of them the address may close."""
    await room.enrol("b", listen="tcp://127.0.0.1:0")
    address = room.listener.workspaces.address_of("b")
    assert isinstance(address, Tcp)
    with socket.create_connection((address.host, address.port)):
        for _ in range(moments):
            await asyncio.sleep(0)
        room.listener.workspaces.close_address("b")
        await room.until(lambda: not _accepts(address))
    await room.until(lambda: room.count("connections") == room.count("probes"))
    gc.collect()  # a socket that was left open is a warning now


def _accepts(address: Tcp) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address.host, address.port)) == 0
