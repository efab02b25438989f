"""Services with credentials: what is added, who may call what, what comes back, and what an agent cannot get out."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from agent_host.errors import InvalidRequest, StartError
from agent_host.secrets import checked_name, checked_value
from agent_host.services import load_services

from .echo_service import EchoService
from .live import PATIENCE, UP, Host, assert_problem

CANARY = "canary/K3y+with=odd&chars~7319"
FILE = """
secrets:
  from-file: {{file: key.txt}}
  from-command: {{command: [printf, '%s', '{canary}']}}
  simple: {{command: [printf, '%s', canary-in-a-name-1]}}
  from-nowhere: {{command: ['false']}}
services:
  echo: &echo
    base_url: {url}
    private: true
    credential: {{header: X-Api-Key, secret: main}}
    methods: [GET, HEAD, POST]
    paths: [/open, /open/**, /items/*, /encoded, /header, /name, /split, /trailer, /zipped, /repeated, /redirect,
            /large, /broken, /status, /silent, /events]
    timeout: 2
  filed: {{<<: *echo, credential: {{header: Authorization, secret: from-file}}}}
  printed: {{<<: *echo, credential: {{header: Authorization, value: 'Key {{secret}} v1', secret: from-command}}}}
  missing: {{<<: *echo, credential: {{header: X-Api-Key, secret: from-nowhere}}}}
  unset: {{<<: *echo, credential: {{header: X-Api-Key, secret: never-set}}}}
  query: {{<<: *echo, credential: {{query: api_key, secret: main}}}}
  basic: {{<<: *echo, credential: {{basic: ann, secret: main}}}}
  simple: {{<<: *echo, credential: {{header: X-Api-Key, secret: simple}}}}
  oauth:
    <<: *echo
    paths: [/**]
    credential: {{oauth: {{token_url: '{url}/token', client_id: me, scopes: [a, b]}}, secret: main}}
  oauth-body:
    <<: *echo
    credential: {{oauth: {{token_url: '{url}/token', client_id: me, client_auth: body}}, secret: main}}
  plain: {{<<: *echo, credential: null}}
  for-bea: {{<<: *echo, agents: [bea]}}
  for-red: {{<<: *echo, teams: [red]}}
  slow: {{<<: *echo, rate: 2/hour}}
  public: {{base_url: 'https://127.0.0.1:{port}/base', credential: {{header: X-Api-Key, secret: main}}}}
  named: {{base_url: 'https://localhost:{port}/base', credential: {{header: X-Api-Key, secret: main}}}}
"""
World = tuple[Host, EchoService]
Clients = dict[str, httpx.Client]


def secret(host: Host, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run `agent-host secret`."""
    command = [*UP[:-1], "secret", *arguments]
    env = os.environ | host.env
    return subprocess.run(command, check=False, env=env, input=given, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def _world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("services")
    with EchoService() as echo:
        (folder / "key.txt").write_text(f"{CANARY}\n")
        path = folder / "services.yaml"
        path.write_text(FILE.format(url=echo.url, port=echo.server_address[1], canary=CANARY))
        host = Host(folder / "data", MESH_SERVICES=path)
        assert secret(host, "set", "main", given=f"{CANARY}\n").returncode == 0
        with host:
            yield host, echo


@pytest.fixture
def world(_world: World) -> World:
    _world[1].requests.clear()
    _world[1].valid = True
    return _world


@pytest.fixture(scope="module")
def clients(_world: World) -> Iterator[Clients]:
    """Agents by their names; `rex` is of the team `red`."""
    host, _ = _world
    rex = {"id": "rex", "team": "red", "driver": "external"}
    assert host.operator.post("/workspaces", json=rex).status_code == 201
    with ExitStack() as stack:
        yield {name: stack.enter_context(host.client(host.token(name))) for name in ("ada", "bea", "rex")}


@pytest.fixture
def ada(world: World, clients: Clients) -> httpx.Client:
    return clients["ada"]


def seen(echo: EchoService) -> dict[str, Any]:
    """The only request that the service has got."""
    (request,) = echo.requests
    return request


def assert_no_canary(reply: httpx.Response, *more: str) -> None:
    """Neither the body nor the headers have the secret in any form in which one would look for it."""
    raw = CANARY.encode()
    text = reply.content + repr(reply.headers.raw).encode()
    forms = [
        raw,
        raw.hex().encode(),
        base64.b64encode(raw),
        base64.b64encode(b"ann:" + raw),
        *(one.encode() for one in more),
    ]
    for form in forms:
        assert form.lower() not in text.lower(), text


# ---------------------------------------------------------------- what is added


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("echo", "x-api-key", CANARY),
        ("filed", "authorization", f"Bearer {CANARY}"),
        ("printed", "authorization", f"Key {CANARY} v1"),
        ("basic", "authorization", "Basic " + base64.b64encode(f"ann:{CANARY}".encode()).decode()),
    ],
)
def test_a_credential_is_added_and_does_not_come_back(
    world: World, ada: httpx.Client, name: str, header: str, value: str
) -> None:
    sent = {"x-api-key": "mine", "x-mine": "yes", "accept": "text/x", "cookie": "a=b"}
    reply = ada.post(f"/services/{name}/open/a%20b?x=1&y=%2F", content=b"body", headers=sent)
    assert reply.status_code == 200, reply.text
    got = seen(world[1])
    assert (got["method"], got["path"], got["body"]) == ("POST", "/base/open/a%20b?x=1&y=%2F", "body")
    assert got["headers"].items() >= {header: value, "x-mine": "yes", "accept": "text/x"}.items()
    assert got["headers"].keys().isdisjoint({"cookie"} | ({"authorization"} - {header}))
    assert reply.headers["x-mesh-service"] == name
    assert_no_canary(reply, value)
    assert "[redacted]" in reply.text


def test_a_credential_in_the_query(world: World, ada: httpx.Client) -> None:
    reply = ada.get("/services/query/open", params={"x": "1"})
    assert seen(world[1])["path"].startswith("/base/open?x=1&api_key=canary%2FK3y%2Bwith")
    assert_no_canary(reply, "canary%2FK3y")


def test_bodies_without_a_length_are_streamed(world: World, ada: httpx.Client) -> None:
    reply = ada.post("/services/echo/open", content=iter([b"one ", b"two ", b"three"]))
    assert reply.json()["body"] == "one two three"
    assert seen(world[1])["headers"]["transfer-encoding"] == "chunked"
    large = b"x" * (4 << 20)
    assert len(ada.post("/services/plain/open", content=large).json()["body"]) == len(large)


def test_a_token_of_oauth_is_fetched_once_and_again_when_it_is_refused(world: World, ada: httpx.Client) -> None:
    _, echo = world
    with ThreadPoolExecutor(8) as clients:
        replies = list(clients.map(lambda _: ada.get("/services/oauth/guarded"), range(8)))
    assert {reply.status_code for reply in replies} == {200}
    (asked,) = [one for one in echo.requests if one["path"] == "/base/token"]
    pair = f"me:{CANARY.replace('/', '%2F').replace('+', '%2B').replace('=', '%3D').replace('&', '%26')}"
    assert asked["headers"]["authorization"] == "Basic " + base64.b64encode(pair.encode()).decode()
    assert asked["body"] == "grant_type=client_credentials&scope=a+b"
    reply = ada.get("/services/oauth/open")
    assert reply.json()["headers"]["authorization"] == "Bearer [redacted]"
    echo.tokens += 1  # the one before is no longer taken
    assert ada.get("/services/oauth/guarded").status_code == 401
    assert ada.get("/services/oauth/guarded").status_code == 200
    assert ada.get("/services/oauth-body/open").status_code == 200
    form = next(one for one in reversed(echo.requests) if one["path"] == "/base/token")["body"]
    assert form.startswith("grant_type=client_credentials&client_id=me&client_secret=canary%2FK3y")


def test_no_token_says_so_without_the_secret(world: World, ada: httpx.Client) -> None:
    world[1].valid = False
    ada.get("/services/oauth/guarded")  # what was kept is refused
    reply = ada.get("/services/oauth/guarded")
    problem = assert_problem(reply, 502, "service_auth")
    assert problem["detail"] == "the token server of oauth answered 403 without a token; see its credential"
    assert_no_canary(reply)


# ---------------------------------------------------------------- who may call what


def test_agents_see_and_reach_their_services_only(world: World, clients: Clients) -> None:
    host, (ada, bea, rex) = world[0], clients.values()
    mine = {one["name"] for one in ada.get("/services").json()["services"]}
    assert "echo" in mine
    assert mine.isdisjoint({"for-bea", "for-red"})
    one = next(one for one in ada.get("/services").json()["services"] if one["name"] == "slow")
    assert (one["methods"], one["rate"]) == (["GET", "HEAD", "POST"], "2 in 3600 s")
    assert one.keys() == {"name", "methods", "paths", "rate"}
    for client, name, status in [(bea, "for-bea", 200), (rex, "for-red", 200), (bea, "for-red", 404)]:
        assert client.get(f"/services/{name}/open").status_code == status
    for name in ("for-bea", "for-red", "nothing"):
        problem = assert_problem(ada.get(f"/services/{name}/open"), 404, "unknown_service")
        assert name in problem["detail"]
    assert host.operator.get("/services/for-bea/open").status_code == 200
    with host.client("no-token") as stranger:
        assert stranger.get("/services/echo/open").status_code == 401
        assert stranger.get("/services").status_code == 401


def test_a_rate_is_each_agents_own(world: World, ada: httpx.Client, clients: Clients) -> None:
    _, echo = world
    assert [ada.get("/services/slow/open").status_code for _ in range(3)] == [200, 200, 429]
    reply = ada.get("/services/slow/open")
    assert_problem(reply, 429, "rate_limited")
    assert 1700 < int(reply.headers["retry-after"]) <= 1800
    assert clients["bea"].get("/services/slow/open").status_code == 200
    assert len(echo.requests) == 3


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(world: World, ada: httpx.Client, method: str) -> None:
    reply = ada.request(method, "/services/echo/open")
    assert_problem(reply, 405, "method_not_allowed")
    assert reply.headers["allow"] == "GET, HEAD, POST"
    assert world[1].requests == []


# ---------------------------------------------------------------- what comes back


def test_statuses_and_headers_pass(world: World, ada: httpx.Client) -> None:
    for status in (404, 401, 429, 500):
        reply = ada.get(f"/services/echo/status?is={status}")
        assert (reply.status_code, reply.text, reply.headers["retry-after"]) == (status, "so be it", "7")
        assert "www-authenticate" not in reply.headers
    twice = ada.get("/services/echo/repeated", params={"link": "<1>,<2>", "x-own": "a,b", "etag": "1,2"})
    assert [twice.headers[name] for name in ("link", "x-own", "etag")] == ["<1>, <2>", "a, b", "1"]
    assert ada.head("/services/echo/open").status_code == 200
    assert ada.get("/services/echo/status?is=204").content == b""


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("echo/silent", 504, "service_timeout"),
        ("missing/open", 503, "secret_unavailable"),
        ("unset/open", 503, "secret_unavailable"),
        ("public/open", 502, "address_not_allowed"),
        ("named/open", 502, "address_not_allowed"),
        ("echo/zipped", 502, "answer_encoded"),
        ("echo/repeated?content-encoding=identity,gzip", 502, "answer_encoded"),
    ],
)
def test_failures_have_codes(world: World, ada: httpx.Client, path: str, status: int, code: str) -> None:
    reply = ada.get(f"/services/{path}")
    assert_problem(reply, status, code)
    assert_no_canary(reply)


@pytest.mark.parametrize("path", ["broken", pytest.param("large?mib=65", marks=pytest.mark.slow)])
def test_an_answer_that_is_cut_off_is_not_taken_for_the_whole(world: World, ada: httpx.Client, path: str) -> None:
    with pytest.raises(httpx.HTTPError):
        ada.get(f"/services/echo/{path}")


def test_a_stream_passes_as_it_comes_and_ends_with_its_reader(world: World, ada: httpx.Client) -> None:
    _, echo = world
    with ada.stream("GET", "/services/echo/events") as reply:
        assert next(reply.iter_lines()) == "data: one"
    deadline = time.monotonic() + PATIENCE
    while not any(one["path"] == "gone" for one in echo.requests):
        assert time.monotonic() < deadline, "the service still has its reader"
        time.sleep(0.01)


def test_a_body_that_is_too_long_is_refused(world: World, ada: httpx.Client) -> None:
    host, echo = world
    at = urlsplit(host.url)
    with socket.create_connection((at.hostname, at.port), 60) as connection:
        lines = ["POST /services/echo/open HTTP/1.1", "host: h", f"authorization: {ada.headers['authorization']}"]
        connection.sendall("\r\n".join([*lines, f"content-length: {33 << 20}", "", ""]).encode())
        assert b"413" in connection.recv(65536).split(b"\r\n")[0]
    assert echo.requests == []


# ---------------------------------------------------------------- attempts to get the secret out

ENCODINGS = (
    *("plain", "upper", "percent", "percent_all", "percent_twice", "json", "html", "html_hex", "hex", "mixed"),
    *("base64_0", "base64_1", "base64_2", "base64url_0", "base64url_1", "base64url_2", "base64_lines"),
)


@pytest.mark.parametrize("form", ENCODINGS)
@pytest.mark.parametrize("name", ["echo", "query"])
def test_echoes_in_any_encoding_are_redacted(world: World, ada: httpx.Client, name: str, form: str) -> None:
    reply = ada.get(f"/services/{name}/encoded?as={form}")
    assert reply.status_code == 200, reply.text
    assert "[redacted]" in reply.text
    left = re.sub(r"\[redacted\]", "", reply.text)
    assert len(left) < 12 or form == "base64_lines", "at most the neighbours of the secret are left"
    assert "k3y" not in left.lower()


@pytest.mark.parametrize(
    "path",
    [
        "header",
        "split",
        "trailer",
        "open?x=1",
        "redirect?to=https://evil.example/?k=SECRET",
        "redirect?to=http://HERE.evil.example/",
        "redirect?to=//evil.example/SECRET",
        "redirect?to=http://HERE/elsewhere",
        "redirect?to=http://HERE/base/../elsewhere",
        "redirect?to=http://HERE/base/%252e%252e/elsewhere",
        "redirect?to=https://HERE/base/open",
        "redirect?status=307%26to=ftp://HERE/base/open",
        "redirect?to=%2Fbase%2Fopen%3Fk=SECRET",
    ],
)
def test_echoes_elsewhere_are_redacted_or_refused(world: World, ada: httpx.Client, path: str) -> None:
    reply = ada.get(f"/services/echo/{path.replace('%26', '&')}")
    assert_no_canary(reply, "canary%2FK3y")
    if path.startswith("redirect") and "%2Fbase" not in path:
        assert_problem(reply, 502, "redirect_refused")
        assert "evil" not in reply.text
    else:
        assert reply.status_code in (200, 302)
    if path == "split":
        assert reply.text == "<<[redacted]>>"


def test_a_header_whose_name_has_the_secret_is_dropped(world: World, ada: httpx.Client) -> None:
    reply = ada.get("/services/simple/name")
    assert (reply.status_code, reply.text) == (200, "see the names")
    assert not any(name.startswith("x-canary") for name in reply.headers)


def test_a_redirect_within_the_service_stays_at_the_host(world: World, ada: httpx.Client) -> None:
    reply = ada.get("/services/echo/redirect?to=/base/open%3Fa=1")
    assert (reply.status_code, reply.headers["location"]) == (302, "/services/echo/open?a=1")
    followed = ada.get("/services/echo/redirect?to=/base/secret-place", follow_redirects=True)
    assert_problem(followed, 403, "path_not_allowed")


@pytest.mark.parametrize(
    "path",
    [
        "secret-place",
        "openx",
        "items/a/b",
        "open/../secret-place",
        "open/%2e%2e/secret-place",
        "open/%2E./secret-place",
        "open/..%2fsecret-place",
        "open/..%5csecret-place",
        "open/%252e%252e/secret-place",
        "open/%25252e%25252e/secret-place",
        "open/..;/secret-place",
        "open/.%20./x",
        "open/..%20/secret-place",
        "open//evil.example",
        "/evil.example/open",
        "open/%00",
        "open/%0d%0aX-Injected:%201",
        "open/%c0%ae%c0%ae/secret-place",
        "open/%EF%BC%8E%EF%BC%8E/secret-place",
        "open/a%2Fb",
        "open/%zz",
        "open/?_method=DELETE",
        "open/?%5fmethod=DELETE",
        "open/?x-http-method-override=DELETE",
    ],
)
def test_paths_that_lead_elsewhere_never_reach_the_service(world: World, ada: httpx.Client, path: str) -> None:
    raw = b"/services/echo/" + path.encode()
    url = httpx.URL(ada.base_url).copy_with(raw_path=raw)
    reply = ada.send(ada.build_request("GET", url))
    refused = {(403, "path_not_allowed"), (400, "invalid_path"), (404, "not_found")}
    assert (reply.status_code, reply.json()["code"]) in refused, reply.text
    assert world[1].requests == []


def test_a_parameter_like_the_credentials_is_refused(world: World, ada: httpx.Client) -> None:
    for query in ("api_key=mine", "API_KEY=mine", "api%5Fkey=mine", "a=1;api_key=x", "api_key[]=x"):
        assert_problem(ada.get(f"/services/query/open?{query}"), 400, "invalid_path")
    assert world[1].requests == []


def test_headers_that_change_the_request_are_dropped(world: World, ada: httpx.Client) -> None:
    changed = {
        "host": "evil.example",
        "x-forwarded-host": "evil.example",
        "forwarded": "host=evil.example",
        "x-http-method-override": "DELETE",
        "x-method-override": "DELETE",
        "x-original-url": "/secret-place",
        "x-rewrite-url": "/secret-place",
        "range": "bytes=0-3",
        "accept-encoding": "gzip",
        "accept-charset": "utf-16",
        "x_api_key": "mine",
        "connection": "close, x-api-key, x-dropped",
        "x-dropped": "1",
        "te": "trailers",
        "expect": "",
        "proxy-authorization": "Basic x",
        "x-kept": "1",
    }
    assert ada.get("/services/echo/open", headers=changed).status_code == 200
    got = seen(world[1])["headers"]
    assert got["host"].startswith("127.0.0.1:")
    assert (got["x-api-key"], got["x-kept"], got["accept-encoding"]) == (CANARY, "1", "identity")
    gone = {name for name in changed if name not in ("host", "x-kept", "accept-encoding", "connection")}
    assert gone.isdisjoint(got)
    assert got["connection"] == "close"


def test_header_injection_is_no_request_at_all(world: World, ada: httpx.Client) -> None:
    host, echo = world
    at = urlsplit(host.url)
    token = ada.headers["authorization"]
    lines = ("x-a: b\rX-Injected: 1", "x-a: b\x00c", "x-a : b", "x-a: b\x0bc")
    for line in lines:
        with socket.create_connection((at.hostname, at.port), 60) as connection:
            head = f"GET /services/echo/open HTTP/1.1\r\nhost: h\r\nauthorization: {token}\r\n{line}\r\n\r\n"
            connection.sendall(head.encode("latin-1"))
            assert connection.recv(65536).split(b" ")[1] in (b"400", b"422"), line
    assert echo.requests == []


def test_answers_of_calls_at_once_are_not_mixed_up(world: World, ada: httpx.Client, clients: Clients) -> None:
    """Twelve at a time, some of them with a service that an agent may not use."""
    bea = clients["bea"]
    with ThreadPoolExecutor(12) as threads:

        def call(number: int) -> None:
            client, name = (bea, "for-bea") if number % 3 == 0 else (ada, ("for-bea", "echo")[number % 2])
            reply = client.get(f"/services/{name}/open", headers={"x-number": str(number)})
            allowed = client is bea or name == "echo"
            assert reply.status_code == (200 if allowed else 404)
            assert_no_canary(reply)
            if allowed:
                assert reply.json()["headers"]["x-number"] == str(number)

        list(threads.map(call, range(120)))


def test_a_secret_that_changes_is_used_and_redacted_from_the_next_call_on(world: World, ada: httpx.Client) -> None:
    host, echo = world
    try:
        assert secret(host, "set", "main", given="another-secret-1\n").stdout == "main is changed\n"
        reply = ada.get("/services/echo/open")
        assert echo.requests[-1]["headers"]["x-api-key"] == "another-secret-1"
        assert "another-secret-1" not in reply.text
    finally:
        secret(host, "set", "main", given=CANARY)


def test_the_log_of_the_host_has_no_secret(world: World, ada: httpx.Client) -> None:
    host, _ = world
    ada.get("/services/echo/open?x=1")
    ada.get("/services/query/open")
    ada.get("/services/missing/open")
    output = host.process.output()
    assert "service_called" in output
    assert "canary" not in output
    assert "secret_unavailable" in output


def test_an_agent_that_calls_without_end_does_not_fill_the_log(world: World, clients: Clients) -> None:
    host, _ = world
    began = time.monotonic()
    paths = (f"plain/open/{'x' * 3000}", "plain/status?is=404", "plain/status?is=410", "public/x", "unset/open")
    with host.client(host.token("loud")) as loud:
        for _ in range(130):
            for path in paths:
                loud.get(f"/services/{path}")
    clients["bea"].get("/services/plain/open/last")
    host.process.wait_for_output("/open/last")
    minutes = 1 + (time.monotonic() - began) // 60
    lines = [json.loads(line) for line in host.process.output().splitlines() if line.startswith("{")]
    calls = [line for line in lines if line.get("agent") == "loud"]
    ends = Counter(line.get("code", line.get("status", 0) // 100) for line in calls)
    assert ends.keys() == {2, 4, "address_not_allowed"}
    assert all(120 <= count <= 120 * minutes for count in ends.values()), ends
    assert max(len(line["path"]) for line in calls) <= 200
    unset = [line for line in lines if line.get("secret") == "never-set"]
    assert 1 <= len(unset) <= 1 + minutes


# ---------------------------------------------------------------- the command


@pytest.mark.slow
def test_secrets_are_set_listed_and_removed_and_never_shown(tmp_path: Path) -> None:
    host = Host(tmp_path / "data")
    done = secret(host, "set", "token-1", given="abcdefgh\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, "token-1 is set\n", "")
    path = tmp_path / "data/secrets/token-1"
    assert path.read_text() == "abcdefgh"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    listed = secret(host, "list").stdout
    assert re.fullmatch(r"token-1  \d{4}-\d\d-\d\d \d\d:\d\d\n", listed)
    assert secret(host, "remove", "token-1").stdout == "token-1 is removed\n"
    assert secret(host, "list").stdout == ""
    gone = secret(host, "remove", "token-1")
    assert (gone.returncode, gone.stderr[:40]) == (1, "agent-host: there is no secret 'token-1'; `a"[:40])
    refused = secret(host, "set", "x", given="two\nlines here")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == "agent-host: the secret must be one line of printable characters\n"


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b", "a" * 65, "-a", "é"])
def test_a_name_of_a_secret_is_no_path(name: str) -> None:
    with pytest.raises(InvalidRequest, match="must be 1 to 64 letters"):
        checked_name(name)


@pytest.mark.parametrize("value", ["", "short", "x" * 8193, "two\nlines here", "with\0zero", "with\ttab1"])
def test_a_value_that_is_no_secret_is_not_quoted(value: str) -> None:
    with pytest.raises(InvalidRequest, match="the secret must") as caught:
        checked_value(value)
    assert not value or value not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("services: {a: {base_url: 'http://x.example'}}", "services.a: base_url: must begin with https://"),
        ("services: {a: {base_url: 'https://x.example/?a=1'}}", "base_url: must have no query"),
        ("services: {a: {base_url: 'https://u:p@x.example'}}", "contains a user name"),
        ("services: {a: {base_url: 'https://x.example', methods: [TRACE]}}", "services.a.methods.0"),
        ("services: {a: {base_url: 'https://x.example', paths: [repos]}}", "'repos' is not a path"),
        ("services: {a: {base_url: 'https://x.example', rate: fast}}", "as in 60/minute"),
        ("services: {a: {base_url: 'https://x.example', colour: red}}", "services.a.colour"),
        ("services: {a: {base_url: 'https://x.example', credential: {secret: s}}}", "name one way to send it"),
        (
            "services: {a: {base_url: 'https://x.example', credential: {secret: s, header: A, query: b}}}",
            "name one way to send it",
        ),
        ("services: {a: {base_url: 'https://x.example', credential: {secret: s, header: A, value: b}}}", "value"),
        ("services: {'a b': {base_url: 'https://x.example'}}", "services: name 'a b' must be"),
        ("secrets: {a: {}}", "secrets.a: name one source: file or command"),
        ("secrets: {a: {file: x, command: [y]}}", "secrets.a: name one source"),
        ("services: [", "cannot read"),
    ],
)
def test_a_faulty_file_stops_the_start(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "services.yaml"
    path.write_text(text)
    with pytest.raises(StartError) as caught:
        load_services(path)
    assert why in caught.value.message
    assert caught.value.message.startswith("MESH_SERVICES: ")


def test_the_shape_of_a_problem_is_that_of_all_others(world: World, ada: httpx.Client) -> None:
    body = assert_problem(ada.get("/services/echo/secret-place"), 403, "path_not_allowed")
    assert "these are: /open, /open/**" in body["detail"]
    assert json.dumps(body)
