"""Ports that servers listen on."""

from __future__ import annotations

import pytest

from agent_common.net import bind_tcp_socket


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_port_is_taken_once(host: str) -> None:
    with bind_tcp_socket(host, 0) as bound:
        bound.listen()
        with pytest.raises(OSError, match="in use"):
            bind_tcp_socket(host, bound.getsockname()[1])
