"""What the gateway keeps of headers, and what a caller cannot smuggle through it."""

from __future__ import annotations

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
        (b"last-event-id", b"7"),
    ]
    assert lines(given) == [
        b"GET /status HTTP/1.1",
        b"host: agent",
        b"authorization: Bearer agent_1",
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


def test_answers_set_no_cookies_are_no_pages_and_their_paths_lead_back() -> None:
    given = [
        (b"set-cookie", b"a=b"),
        (b"connection", b"content-length"),
        (b"content-length", b"2"),
        (b"location", b"/result?task_id=1"),
        (b"content-location", b"//evil.example/x"),
        (b"vary", b"a"),
        (b"vary", b"b"),
        (b"content-security-policy", b"default-src *"),
        (b"content-security-policy", b"sandbox allow-scripts allow-same-origin"),
        (b"x-content-type-options", b"none"),
    ]
    assert answer_headers(given, b"/workspaces/a/api") == [
        (b"content-length", b"2"),
        (b"location", b"/workspaces/a/api/result?task_id=1"),
        (b"content-location", b"//evil.example/x"),
        (b"vary", b"a"),
        (b"vary", b"b"),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"default-src 'none'; sandbox"),
    ]
