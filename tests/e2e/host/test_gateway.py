"""The gateway with live agents: everything an agent's own API does is done at the host, and nothing more."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from agent_testing import Say, ScriptedProvider
from tests.integration.host.live import PATIENCE, Host, catalog

from ..two_people import TwoPeople
from .gateway_uses import check_quarantine_cuts_streams, use_everything

World = tuple[Host, ScriptedProvider]


@pytest.fixture(scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("gateway")
    settings = {"UPSTREAM_KEY": "sk-1", "MESH_STOP_GRACE": 2, "MESH_RESTART": "false"}
    with (
        ScriptedProvider() as provider,
        Host(folder / "data", MESH_MODELS=catalog(folder, provider), **settings) as host,
    ):
        for name in ("ada", "bea"):
            assert host.operator.post("/workspaces", json={"id": name}).status_code == 201
        assert host.operator.post("/workspaces/ada/start").status_code == 200
        yield host, provider


@pytest.fixture
def world(_world: World) -> Iterator[World]:
    host, provider = _world
    provider.script.replace(None, otherwise=Say("well said"))
    yield host, provider
    provider.release()


def agent(client: httpx.Client, name: str = "ada") -> httpx.Client:
    """The agent's API by the gateway, with the token of a client of the host."""
    base = f"{str(client.base_url).rstrip('/')}/workspaces/{name}/api/"
    return httpx.Client(base_url=base, headers=client.headers, timeout=PATIENCE, trust_env=False)


def test_an_agent_is_used_as_by_its_own_address(world: World) -> None:
    host, provider = world
    with agent(host.operator) as ada:
        use_everything(ada, provider, "ada")
        assert ada.get("no/such/path").status_code == 404


def test_files_with_conditions_ranges_and_encoded_names(world: World) -> None:
    host, _ = world
    content = os.urandom(1 << 20)
    pieces = (content[at : at + 65_536] for at in range(0, len(content), 65_536))
    with agent(host.operator) as ada:
        put = ada.put("workspace/a%20b%2Bc.bin", content=pieces)
        assert put.status_code == 201, put.text
        part = ada.get("workspace/a%20b%2Bc.bin", headers={"range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, content[10:20])
        whole = ada.get("workspace/a%20b%2Bc.bin")
        assert whole.content == content
        same = ada.get("workspace/a%20b%2Bc.bin", headers={"if-none-match": whole.headers["etag"]})
        assert (same.status_code, same.content) == (304, b"")
        head = ada.head("workspace/a%20b%2Bc.bin")
        assert head.headers["content-length"] == str(len(content))
        refused = ada.put("workspace/a%20b%2Bc.bin", content=b"x", headers={"if-match": '"other"'})
        assert refused.status_code == 412
        assert ada.get("status").status_code == 200


def test_what_does_not_run_says_so(world: World) -> None:
    host, _ = world
    with agent(host.operator, "bea") as bea, agent(host.operator, "nobody") as nobody:
        stopped, unknown = bea.get("status"), nobody.get("status")
    assert (stopped.status_code, stopped.json()["code"]) == (409, "not_running")
    assert unknown.status_code == 404


@pytest.mark.slow
def test_tokens_of_agents_and_strangers_are_refused(world: World) -> None:
    host, _ = world
    with host.client(host.token("ada")) as as_agent, host.client(None) as stranger:
        for client, status in ((as_agent, 403), (stranger, 401)):
            with agent(client) as ada:
                assert ada.get("status").status_code == status
                assert ada.post("chat", json={"message": "Hello"}).status_code == status


def test_a_scoped_token_speaks_for_its_user_in_its_workspaces_only(world: World) -> None:
    host, _ = world
    token = host.operator.post("/tokens", json={"user": "anna", "workspaces": ["ada"]}).json()["token"]
    with agent(host.operator) as operator:
        operator.headers["x-agent-user"] = "bob"
        bobs = operator.post("chat", json={"message": "a secret"}).json()["session_id"]
    with host.client(token) as client, agent(client) as ann, agent(client, "bea") as other:
        assert other.get("status").status_code == 403
        mine = ann.post("chat", json={"message": "Hello"}).json()["session_id"]
        ann.headers["x-agent-user"] = "bob"
        assert [row["id"] for row in ann.get("sessions").json()["sessions"]] == [mine]
        assert ann.get(f"sessions/{bobs}").status_code == 404
        forged = ann.post("chat", json={"message": "Hello", "user": "bob"})
        assert forged.status_code == 422, forged.text
        assert ann.post("chat", json={"message": "Hello", "user": "anna"}).status_code == 200


@pytest.fixture(scope="module")
def bot(_world: World) -> str:
    """A token that speaks for everyone on one platform, and for one person on another."""
    host, _ = _world
    body = {"users": ["telegram:*", "discord:7"], "workspaces": ["ada"]}
    return host.operator.post("/tokens", json=body).json()["token"]


def test_a_scoped_token_does_not_speak_for_another_user_by_any_route(world: World) -> None:
    host, provider = world
    tokens = [host.operator.post("/tokens", json={"user": name, "workspaces": ["ada"]}) for name in ("ann", "bob")]
    with ExitStack() as clients:
        callers = [clients.enter_context(host.client(one.json()["token"])) for one in tokens]
        ann, bob, operator = (clients.enter_context(agent(one)) for one in (*callers, host.operator))
        TwoPeople(operator, ann, bob, provider).check()


def test_a_token_of_several_users_speaks_for_the_one_that_each_request_names(world: World, bot: str) -> None:
    host, _ = world
    with host.client(bot) as client, agent(client) as ada:
        made = dict[str, str]()
        for user in ("telegram:1", "telegram:10", "discord:7"):
            ada.headers["x-agent-user"] = user
            made[user] = ada.post("chat", json={"message": "Hello", "user": user}).json()["session_id"]
            assert ada.post("chat", json={"message": "Hello", "session_id": "same name"}).status_code == 200
        assert len(set(made.values())) == 3
        for user, session in made.items():
            ada.headers["x-agent-user"] = user
            assert len(ada.get("sessions").json()["sessions"]) == 2
            for other in made.values():
                assert ada.get(f"sessions/{other}").status_code == (200 if other == session else 404)


def test_no_body_or_query_speaks_for_another_user(world: World, bot: str) -> None:
    host, _ = world
    with host.client(bot) as client, agent(client) as ada:
        ada.headers["x-agent-user"] = "telegram:2"
        text = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hello"}]}
        chat = {"id": "shared", "messages": [text], "user": "telegram:3", "metadata": {"user": "telegram:3"}}
        assert ada.post("chat", json={"message": "Hello", "user": "telegram:3"}).status_code == 422
        assert ada.post("chat/stream", json={"message": "Hello", "user": "telegram:3"}).status_code == 422
        assert ada.post("chat", json=chat).status_code == 422
        assert ada.post("chat", json={**chat, "user": "telegram:2"}).status_code == 200
        for path in ("pending", "tasks"):
            assert ada.get(path, params={"user": "telegram:3"}).status_code == 422
        assert len(ada.get("sessions").json()["sessions"]) == 1
        ada.headers["x-agent-user"] = "telegram:3"
        assert ada.get("sessions").json()["sessions"] == []


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 422),
        (b"X-Agent-User:\r\n", 422),
        (b"X-Agent-User: telegram:5\r\nx-AGENT-user: telegram:9\r\n", 422),
        (b"X-Agent-User: telegram:9\r\nX-Agent-User: telegram:9\r\n", 422),
        (b"X-Agent-User: telegram:9\r\n telegram:5\r\n", 400),
        (b"X-Agent-User: telegram:9\r\n\ttelegram:5\r\n", 400),
        (b"X-Agent-User : telegram:5\r\n", 400),
        (b"X-Agent-User: telegram:9\rX-Agent-User: telegram:5\r\n", 400),
        (b"X-Agent-User: telegram:9\x00\r\n", 400),
        (b"X_Agent_User: telegram:5\r\n", 422),
        (b"X-Agent-User: operator\r\n", 422),
        (b"X-Agent-User: telegram:*\r\n", 422),
        (b"X-Agent-User: telegram:\xff\r\n", 422),
        (b"X-Agent-User: ann\r\n", 403),
        (b"X-Agent-User: TELEGRAM:5\r\n", 403),
        (b"X-Agent-User: telegram%3A5\r\n", 403),
        (b"X-Agent-User: discord:70\r\n", 403),
        (b"X-Agent-User: telegram:%35\r\n", 200),
        (b"X-Agent-User: telegram:50\r\n", 200),
        (b"X-Agent-User: telegram:\xef\xbc\x95\r\n", 200),
        (b"X-Agent-User: telegram:9, telegram:5\r\n", 200),
        (b"X-Agent-User: telegram:9\r\nConnection: X-Agent-User\r\n", 200),
        (b"X-Agent-User: telegram:9\r\nX-Agent-User\r\n", 400),
    ],
)
def test_no_header_shows_a_chat_user_the_session_of_another(world: World, bot: str, sent: bytes, status: int) -> None:
    host, _ = world
    with host.client(bot) as client, agent(client) as ada:
        ada.headers["x-agent-user"] = "telegram:5"
        secret = ada.post("chat", json={"message": "Hello", "session_id": "secret"}).json()["session_id"]
        assert secret in ada.get("sessions").text
    head = b"GET /workspaces/ada/api/sessions HTTP/1.1\r\nHost: mesh\r\nAuthorization: Bearer %b\r\n" % bot.encode()
    answer = answer_to(host, head + sent + b"\r\n")
    assert answer.split(b" ", 2)[1] == b"%d" % status, answer
    assert secret.encode() not in answer
    if status in (403, 422):
        assert b"X-Agent-User" in answer


def test_the_trailer_of_a_body_names_no_user(world: World, bot: str) -> None:
    """Whether it has come by then or not, it is no second name."""
    host, _ = world
    line = b'{"message": "Hello", "session_id": "trailer"}'
    head = b"POST /workspaces/ada/api/chat HTTP/1.1\r\nHost: mesh\r\nAuthorization: Bearer %b\r\n" % bot.encode()
    head += b"X-Agent-User: telegram:6\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
    answer = answer_to(host, head + b"%x\r\n%b\r\n0\r\nX-Agent-User: telegram:8\r\n\r\n" % (len(line), line))
    assert answer.split(b" ", 2)[1] in (b"200", b"422"), answer
    with host.client(bot) as client, agent(client) as ada:
        ada.headers["x-agent-user"] = "telegram:8"
        assert ada.get("sessions").json()["sessions"] == []


def answer_to(host: Host, sent: bytes) -> bytes:
    """What comes back for these bytes, up to the end of the first answer."""
    address = urlsplit(host.url)
    with socket.create_connection((address.hostname, address.port), PATIENCE) as connection:
        connection.sendall(sent)
        with connection.makefile("rb") as file:
            head = b"".join(iter(file.readline, b"\r\n"))
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            return head + (file.read(int(length[1])) if length else file.read())


def test_a_revoked_token_loses_its_open_stream(world: World) -> None:
    host, _ = world
    made = host.operator.post("/tokens", json={"user": "ann", "workspaces": ["ada"]}).json()
    with host.client(made["token"]) as client, agent(client) as ann, ann.stream("GET", "events") as reply:
        assert reply.status_code == 200
        ended = reading(reply)
        assert host.operator.delete(f"/tokens/{made['id']}").status_code == 204
        assert ended.wait(PATIENCE)


def test_quarantine_cuts_open_streams(world: World) -> None:
    host, provider = world
    assert host.operator.post("/workspaces", json={"id": "cut"}).status_code == 201
    check_quarantine_cuts_streams(host, provider, "cut")


def test_an_agent_that_does_not_answer_is_unreachable(world: World) -> None:
    host, _ = world
    assert host.operator.post("/workspaces", json={"id": "deaf"}).status_code == 201
    url = host.operator.post("/workspaces/deaf/start").json()["url"]
    [process] = [
        child
        for child in psutil.Process(host.process.pid).children(recursive=True)
        if url.rpartition(":")[2] in {str(one.laddr.port) for one in child.net_connections() if one.status == "LISTEN"}
    ]
    with agent(host.operator, "deaf") as deaf:
        os.kill(process.pid, signal.SIGKILL)
        answer = deaf.get("status")
        assert (answer.status_code, answer.json()["code"]) in ((502, "agent_unreachable"), (409, "not_running"))


def reading(reply: httpx.Response) -> threading.Event:
    """Set once the stream has ended, however it ends."""
    ended = threading.Event()

    def read() -> None:
        try:
            for _ in reply.iter_raw():
                pass
        except httpx.TransportError:
            pass
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    return ended
