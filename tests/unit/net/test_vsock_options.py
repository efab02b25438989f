"""A socket of vsock takes its patience, on a machine that has the family at all."""

from __future__ import annotations

import socket
import struct

import pytest

from agent_common.net.endpoints import connect


def test_how_long_a_connection_may_take_is_told_to_the_kernel() -> None:
    try:
        opened = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    except OSError:
        pytest.skip("this machine has no vsock")
    with opened:
        connect._set_connect_timeout(opened, 7.5)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, fileno=opened.detach()) as unnamed:
            raw = unnamed.getsockopt(socket.AF_VSOCK, connect._VSOCK_CONNECT_TIMEOUT, 16)
    assert struct.unpack("ll", raw) == (7, 500_000)
