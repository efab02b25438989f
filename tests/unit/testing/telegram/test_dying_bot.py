"""A bot that dies in the middle of a call."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from agent_testing import FakeTelegram

from .api import Api


def test_half_a_call_is_no_fault_of_the_double(
    telegram: FakeTelegram, api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    where = urlsplit(telegram.url)
    with socket.create_connection((where.hostname or "", where.port or 0)) as connection:
        head = f"POST /bot{telegram.token}/getMe HTTP/1.1\r\nHost: telegram\r\nContent-Length: 100\r\n"
        connection.sendall(f"{head}Content-Type: application/x-www-form-urlencoded\r\n\r\na=".encode())
    for _ in range(20):
        assert api.call("getMe")["username"] == "helper_bot"
    assert caplog.text == ""
    assert len(telegram.journal) == 20
