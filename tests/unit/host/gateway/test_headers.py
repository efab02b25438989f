"""What the gateway keeps of headers, and what a caller cannot smuggle through it."""

from __future__ import annotations

import pytest

from agent_common.net import TransportFault
from agent_host.gateway.headers import RawHeaders, answer_headers, request_head


def lines(headers: RawHeaders, user: str | None = None) -> list[bytes]:
    return request_head("GET", b"/status", headers, token="agent_1", user=user).split(b"\r\n")


def test_the_hosts_token_is_replaced_and_headers_of_one_connection_are_dropped() -> None:
    given = [
        (b"authorization", b"Bearer operator"),
        (b"host", b"mesh"),
        (b"connection", b"close, x-mine"),
        (b"x-mine", b"1"),
        (b"cookie", b"a=b"),
        (b"accept-encoding", b"gzip"),
        (b"last-event-id", b"7"),
    ]
    assert lines(given) == [
        b"GET /status HTTP/1.1",
        b"host: agent",
        b"authorization: Bearer agent_1",
        b"accept-encoding: identity",
        b"last-event-id: 7",
        b"",
        b"",
    ]


def test_a_scoped_user_is_the_only_one() -> None:
    given = [(b"x-agent-user", b"bob"), (b"connection", b"x-agent-user"), (b"x-agent-user", b"eve")]
    given += [(b"x_agent_user", b"bob"), (b"x-agent_user", b"bob"), (b"x_agent-user", b"bob")]
    assert [line for line in lines(given, "änn") if b"user" in line] == ["x-agent-user: änn".encode()]
    assert [line for line in lines([(b"x-agent-user", b"bob")]) if b"user" in line] == [b"x-agent-user: bob"]


def test_the_length_of_a_body_cannot_be_dropped() -> None:
    given = [(b"connection", b"content-length, transfer-encoding"), (b"content-length", b"5")]
    assert b"content-length: 5" in lines(given)
    assert b"transfer-encoding: chunked" in lines([*given[:1], (b"transfer-encoding", b"chunked")])


GUARDS = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
]
FOR_THE_WHOLE_ADDRESS = [
    "access-control-allow-origin", "alt-svc", "clear-site-data", "content-location", "link", "nel",
    "proxy-authenticate", "refresh", "report-to", "service-worker-allowed", "set-cookie", "sourcemap",
    "strict-transport-security",
    "www-authenticate", "x-accel-redirect", "x-mesh-service", "x-sendfile",
]  # fmt: skip


def answered(status: int, headers: RawHeaders, target: bytes = b"/sessions/s") -> RawHeaders:
    found = answer_headers(status, headers, target, b"/workspaces/a/api")
    assert found[-2:] == GUARDS
    return found[:-2]


def test_answers_keep_what_is_said_of_them_alone_and_are_no_pages() -> None:
    kept = [(b"content-length", b"2"), (b"etag", b'"1"'), (b"vary", b"a"), (b"vary", b"b")]
    given = [
        *((name.encode(), b"x") for name in FOR_THE_WHOLE_ADDRESS),
        (b"connection", b"content-length, cache-control"),
        (b"cache-control", b"no-store"),
        *kept,
        (b"content-security-policy", b"default-src *"),
        (b"content-security-policy", b"sandbox allow-scripts allow-same-origin"),
        (b"x-content-type-options", b"none"),
    ]
    assert answered(200, given) == kept


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_has_no_length(status: int) -> None:
    assert answered(status, [(b"content-length", b"5"), (b"etag", b'"1"')]) == [(b"etag", b'"1"')]


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        (b"/result?task_id=1", b"/workspaces/a/api/result?task_id=1"),
        (b"../tasks?a=..", b"/workspaces/a/api/tasks?a=.."),
        (b"http://agent/status", b"/workspaces/a/api/status"),
        (b"/../../../workspaces/victim", b"/workspaces/a/api/workspaces/victim"),
    ],
)
@pytest.mark.parametrize("status", [201, 307])
def test_a_location_leads_back_to_the_agent(location: bytes, expected: bytes, status: int) -> None:
    assert answered(status, [(b"location", location)]) == [(b"location", expected)]


@pytest.mark.parametrize(
    "location",
    [
        b"https://evil.example/x",
        b"//evil.example/x",
        b"http://agent:8420/x",
        b"javascript:alert(1)",
        b"/%2e%2e/%2E%2e/tokens",
        b"/a/.%2e/..%3b/tokens",
        b"/\\..\\..\\tokens",
        b"/..;/..;/tokens",
        b"/a b",
        b"http://[",
    ],
)
def test_a_location_elsewhere_is_dropped_and_such_a_redirect_is_none(location: bytes) -> None:
    assert answered(201, [(b"location", location)]) == []
    with pytest.raises(TransportFault):
        answered(302, [(b"location", location)])


@pytest.mark.parametrize("header", [(b"content-encoding", b"gzip"), (b"transfer-encoding", b"gzip, chunked")])
def test_an_encoded_answer_is_none(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(TransportFault):
        answered(200, [header])
    assert answered(200, [(b"content-encoding", b"identity"), (b"transfer-encoding", b"Chunked")]) == []
