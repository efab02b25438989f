"""Many large bodies at once: a guest with 512 MiB takes as many as it has room for, and refuses no small one."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from agent_testing import ScriptedProvider
from tests.e2e.live import TOKEN, eventually

from .guest import SmallGuest

MIB = 2**20
CALLERS = 56
LARGE = 8 * MIB
BODY = memoryview(b"x" * LARGE)


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGuest]:
    with ScriptedProvider() as provider, SmallGuest(provider, tmp_path_factory.mktemp("guest")) as guest:
        yield guest


class Caller:
    """One who sends all of a large body but its last byte."""

    def __init__(self, guest: SmallGuest, path: str) -> None:
        at = urlsplit(guest.url)
        self.socket = socket.create_connection((at.hostname, at.port), timeout=60)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        with contextlib.suppress(OSError):  # refused in the middle of it
            self.socket.sendall(f"{head}Content-Length: {LARGE}\r\n\r\n".encode())
            self.socket.sendall(BODY[:-1])

    def answer(self) -> tuple[int, bytes]:
        """The rest is sent, and answered: status and all that came."""
        with contextlib.suppress(OSError):
            self.socket.sendall(b"x")
        said = b""
        while b"\r\n\r\n" not in said or b"}" not in said:
            if not (piece := self.socket.recv(65536)):
                break
            said += piece
        self.socket.close()
        return int(said.split()[1]), said


def test_bodies_share_one_budget_and_small_ones_need_none_of_it(guest: SmallGuest) -> None:
    guest.provider.script.replace(None)
    callers = [Caller(guest, "/chat") for _ in range(CALLERS)]
    with guest.watched(1000):
        assert guest.chat("hello", session_id="small").status_code == 200
    answers = [caller.answer() for caller in callers]
    statuses = [status for status, _ in answers]
    assert set(statuses) == {422, 429}
    assert 4 <= statuses.count(422) <= 8
    [refused] = {said.partition(b"\r\n\r\n")[2] for status, said in answers if status == 429}
    assert json.loads(refused)["code"] == "too_many_bytes"
    assert all(b"retry-after: 1\r\n" in said.lower() for status, said in answers if status == 429)
    assert guest.peak_mib < 400


def test_the_budget_is_given_back(guest: SmallGuest) -> None:
    for _ in range(3):
        callers = [Caller(guest, "/chat") for _ in range(8)]
        for caller in callers:  # all hang up without an answer
            caller.socket.close()
    assert eventually(lambda: guest.http.put("/workspace/large", content=b"x" * LARGE).status_code in (201, 204))
    guest.still_works()
