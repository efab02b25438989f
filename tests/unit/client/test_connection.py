"""Requests: errors by code, retries of what may be repeated, deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any
from urllib.parse import unquote

import httpx2
import pytest

import agent_client
from agent_client import (
    ApiError,
    ClientError,
    Conflict,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidRequest,
    ModelFailed,
    NotFound,
    NotRunning,
    ServerFailed,
    SessionBusy,
    TooManyRequests,
    Unavailable,
    UnexpectedReply,
)
from agent_client.files import Files
from agent_client.http import Call, Connection, path
from agent_common.protocol import AbortReply

Answer = httpx2.Response | Exception


class Server(httpx2.AsyncBaseTransport):
    """Gives these answers in their order, the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.requests: list[httpx2.Request] = []
        self._answers: Iterator[Answer] = iter(answers)
        self._last = answers[-1]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = next(self._answers, self._last)
        if isinstance(answer, Exception):
            raise answer
        return answer


def problem(status: int, code: str, headers: dict[str, str] | None = None, **more: object) -> httpx2.Response:
    body = {"title": "T", "status": status, "detail": "why", "instance": "/x", "code": code, **more}
    return httpx2.Response(status, json=body, headers=headers)


def done() -> httpx2.Response:
    return httpx2.Response(200, json={"session_id": "s", "aborted": True})


def to(server: Server, **more: Any) -> Connection:
    return Connection("http://agent.test/base/", "secret", user="Jörg", transport=server, **more)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (problem(404, "unknown_session"), NotFound),
        (problem(409, "session_busy"), SessionBusy),
        (problem(409, "not_running"), NotRunning),
        (problem(409, "something_new"), Conflict),
        (problem(413, "too_large"), InvalidRequest),
        (problem(418, "teapot"), ApiError),
        (problem(502, "model_quota"), ModelFailed),
        (problem(502, "start_failed"), ServerFailed),
        (httpx2.Response(500, text="<html>"), ServerFailed),
    ],
)
async def test_an_error_has_the_class_of_its_code(answer: httpx2.Response, kind: type[ApiError]) -> None:
    server = Server(answer)
    with pytest.raises(ApiError) as caught:
        await to(server).send(Call("GET", "/x"))
    assert type(caught.value) is kind
    assert len(server.requests) == 1  # another attempt is of no use


async def test_a_fault_names_its_field() -> None:
    faults = [{"field": "token_budget.max_tokens", "message": "too small"}]
    with pytest.raises(InvalidRequest, match="invalid_request: why") as caught:
        await to(Server(problem(422, "invalid_request", errors=faults))).send(Call("POST", "/task"))
    assert caught.value.field == "token_budget.max_tokens"
    assert caught.value.status == 422


@pytest.mark.parametrize(
    "fault", [httpx2.ReadError(""), httpx2.RemoteProtocolError("cut off"), problem(502, "agent_unreachable")]
)
async def test_only_what_may_be_repeated_is_sent_again_after_it_may_have_arrived(fault: Answer) -> None:
    for call, sent in ((Call("GET", "/x"), 2), (Call("POST", "/x", repeatable=True), 2), (Call("POST", "/x"), 1)):
        server = Server(fault, done())
        connection = to(server)
        if sent == 1:
            with pytest.raises((ConnectionFailed, Unavailable)):
                await connection.send(call)
        else:
            await connection.send(call)
        assert len(server.requests) == sent


async def test_what_never_arrived_is_sent_again() -> None:
    server = Server(httpx2.ConnectError("refused"), done())
    await to(server).send(Call("POST", "/sessions/s/fork"))
    assert len(server.requests) == 2


async def test_retry_after_is_the_pause() -> None:
    server = Server(problem(429, "too_many_bytes", {"Retry-After": "1"}), done())
    clock = asyncio.get_running_loop().time
    began = clock()
    await to(server).send(Call("GET", "/x"))
    assert clock() - began >= 1.0


@pytest.mark.parametrize("given", [{"headers": {"Retry-After": "100"}}, {"retry_after": 100.0}])
async def test_a_pause_beyond_the_deadline_is_not_waited_for(given: dict[str, object]) -> None:
    server = Server(problem(429, "too_many_bytes", **given), done())  # type: ignore[arg-type]
    with pytest.raises(TooManyRequests) as caught:
        await to(server, timeout=20).send(Call("GET", "/x"))
    assert caught.value.retry_after == 100.0


async def test_a_call_ends_at_its_deadline() -> None:
    class Silent(Server):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            await asyncio.Event().wait()
            return done()

    with pytest.raises(DeadlineExceeded, match=r"GET http://agent\.test/base/x took 0\.05 s") as caught:
        await to(Silent(done()), timeout=0.05).send(Call("GET", "/x"))
    assert isinstance(caught.value, TimeoutError)


async def test_a_file_that_comes_piece_by_piece_may_take_longer_than_a_call() -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        yield b"first the "
        await asyncio.sleep(0.5)
        yield b"tea"

    async def store(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(201, headers={"ETag": (await request.aread()).decode()})

    files = Files(Connection("http://agent.test", None, timeout=0.1, transport=httpx2.MockTransport(store)))
    assert await files.write("tea.txt", pieces()) == "first the tea"


async def test_a_request_carries_token_and_user_below_the_path_of_the_url() -> None:
    server = Server(done())
    await to(server).fetch(AbortReply, Call("POST", "/chat/s/abort"))
    sent = server.requests[0]
    assert str(sent.url) == "http://agent.test/base/chat/s/abort"
    assert sent.headers["authorization"] == "Bearer secret"
    assert dict(sent.headers.raw)[b"X-Agent-User"] == "Jörg".encode()


@pytest.mark.parametrize("name", ["..", ".", "...", "a b/c", "ü?#%"])
async def test_a_name_stays_in_its_place_in_the_path(name: str) -> None:
    server = Server(done())
    await to(server).fetch(AbortReply, Call("POST", path("chat", name, "abort")))
    begin, middle, end = server.requests[0].url.raw_path.decode().removeprefix("/base/").split("/")
    assert (begin, unquote(middle), end) == ("chat", name, "abort")


async def test_an_answer_of_another_server_is_named() -> None:
    with pytest.raises(UnexpectedReply, match=r"POST http://agent.test/base/x answered session_id: Field required"):
        await to(Server(httpx2.Response(200, json={}))).fetch(AbortReply, Call("POST", "/x"))


@pytest.mark.parametrize("url", ["localhost:8400", "ftp://host", "http://", ""])
def test_a_url_must_be_one(url: str) -> None:
    with pytest.raises(ValueError, match=r"^url: "):
        Connection(url, None)


def test_every_error_is_a_client_error_with_a_message() -> None:
    def subclasses(kind: type[ClientError]) -> Iterator[type[ClientError]]:
        for one in kind.__subclasses__():
            yield one
            yield from subclasses(one)

    for kind in subclasses(ClientError):
        assert getattr(agent_client, kind.__name__) is kind
        assert kind.__doc__
