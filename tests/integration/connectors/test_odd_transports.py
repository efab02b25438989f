"""Servers over HTTP that restart, ping, compress, take their time, or speak an older transport."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from typing import Any

import pytest

from agent_runtime.connectors import Timeouts
from agent_runtime.connectors.rate_limit import MAX_STREAMS
from agent_runtime.ports import ToolResult
from agent_runtime.tools import ToolGate

from .conftest import Grow, until
from .odd_http import FINE, INITIALIZED, OK_TOOL, Reply, Sent, odd_server, usual
from .test_hostile import hostile
from .test_odd_tools import CHANGED

ONCE = Timeouts(first_wait=10, backoff=(30.0,))


class Restarting:
    """A server with sessions, which forgets them and then answers with what a test says."""

    def __init__(self, stale: Reply, *, knows_new: bool = True) -> None:
        self.stale, self.knows_new = stale, knows_new
        self.sessions: list[str] = []
        self.forgotten: set[str] = set()
        self.ran = 0

    def restart(self) -> None:
        self.forgotten |= set(self.sessions)

    async def __call__(self, sent: Sent) -> Reply:
        if sent.asks == "initialize":
            self.sessions.append(f"s{len(self.sessions)}")
            if self.forgotten and not self.knows_new:
                self.forgotten.add(self.sessions[-1])
            return Reply.result(sent, INITIALIZED, **{"mcp-session-id": self.sessions[-1]})
        if sent.method == "POST" and sent.headers.get("mcp-session-id") in self.forgotten:
            listed_anew = sent.asks in ("tools/list", "notifications/initialized")
            return usual(sent) if listed_anew and len(self.sessions) > 1 else self.stale
        self.ran += sent.asks == "tools/call"
        return usual(sent)


def told(text: str, code: int = -32000) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text}}).encode()


STALE = {
    "400 of the TypeScript SDK": Reply(400, told("Bad Request: No valid session ID provided")),
    "400 not initialized": Reply(400, told("Bad Request: Server not initialized")),
    "400 in text": Reply(400, b"Invalid session ID", {"content-type": "text/plain"}),
    "400 empty": Reply(400),
    "400 of a page": Reply(400, b"<html>Bad Request</html>", {"content-type": "text/html"}),
    "400 of a name": Reply(400, b"Invalid session_id", {"content-type": "text/plain"}),
    "400 of the header": Reply(400, b'{"detail": "mcp_session_id: wrong"}'),
    "400 that says nothing": Reply(400, told("Bad Request")),
    "400 of parameters": Reply(400, told("Session not found", -32602)),
    "401 in text": Reply(401, b"Unauthorized: Session not found", {"content-type": "text/plain"}),
    "403 expired": Reply(403, told("Session 0b9f2c has expired")),
    "404 of parameters": Reply(404, told("Session not found", -32602)),
    "410": Reply(410, b"gone"),
    "400 that wants initialize": Reply(400, told("Expected initialize request", -32600)),
    "422 that wants initialize": Reply(422, b"Unexpected message, expect initialize request"),
    "200 that wants initialize": Reply(200, told("Server not initialized", -32002)),
    "400 compressed": Reply(400, gzip.compress(told("No valid session ID provided")), {"content-encoding": "gzip"}),
    "500 of a wrapper": Reply(500, told("Internal error: Bad Request: No valid session ID provided", -32603)),
    "500 of a package": Reply(500, told("MCP error -32001: Session not found", -32603)),
    "502 of a header": Reply(502, b"cannot forward to the backend: unknown Mcp-Session-Id"),
    "503 of a gateway": Reply(503, b"unknown session"),
    "503 in detail": Reply(503, b'{"detail":"Session not found"}'),
    "200 told": Reply(200, told("Session not found")),
    "200 as an event": Reply(
        200, b"data: " + told("Invalid session ID", -32600) + b"\n\n", {"content-type": "text/event-stream"}
    ),
    "404": Reply(404),
    "404 told": Reply(404, told("Session not found", -32600)),
}


@pytest.mark.parametrize("stale", STALE.values(), ids=STALE.keys())
async def test_a_restarted_server_gets_one_new_session_and_the_call_again(grow: Grow, stale: Reply) -> None:
    server = Restarting(stale)
    async with odd_server(server) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert await plant.value("it_ok") == "fine"
        server.restart()
        assert await plant.value("it_ok") == "fine"
        assert (len(server.sessions), server.ran) == (2, 2)
        server.restart()
        assert await plant.value("it_ok") == "fine"
        await plant.connectors.close()


@pytest.mark.parametrize("kind", ["400 empty", "404", "200 told", "503 of a gateway"])
async def test_calls_beside_one_another_share_the_new_session(grow: Grow, kind: str) -> None:
    """The first that is refused ends the session, and the answers to the others come later."""
    server = Restarting(STALE[kind])
    waiting, refused = 0, asyncio.Event()

    async def answers(sent: Sent) -> Reply:
        nonlocal waiting
        stale = sent.asks == "tools/call" and sent.headers.get("mcp-session-id") in server.forgotten
        waiting += stale
        if stale and waiting == 1:
            await until(lambda: waiting == 5)
            refused.set()
        elif stale:
            await refused.wait()
            await asyncio.sleep(0.05)  # after the first; what else the runtime does then has had its time
        return await server(sent)

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        server.restart()
        assert await asyncio.gather(*(plant.value("it_ok") for _ in range(5))) == ["fine"] * 5
        assert (len(server.sessions), server.ran) == (2, 5)
        await plant.connectors.close()


@pytest.mark.parametrize("stale", STALE.values(), ids=STALE.keys())
async def test_a_server_that_knows_no_session_is_not_asked_for_ever(grow: Grow, stale: Reply) -> None:
    server = Restarting(stale, knows_new=False)
    async with odd_server(server) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert await plant.value("it_ok") == "fine"
        server.restart()
        error = await plant.error("it_ok")
        assert "does not know our session" in error
        assert "did not run" in error
        assert "effect is not known" not in error
        await until(lambda: plant.state("it").state == "waiting")
        assert "does not know our session" in plant.state("it").error
        assert (len(server.sessions), server.ran) == (2, 1)
        await plant.connectors.close()


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r"], ids=repr)
async def test_the_last_event_of_a_stream_may_lack_its_blank_line(grow: Grow, end: bytes) -> None:
    async def answer(sent: Sent) -> Reply:
        reply = usual(sent)
        stream = b"event: message\ndata: " + reply.body + end
        return Reply(200, stream, {"content-type": "text/event-stream"}) if reply.body else reply

    async with odd_server(answer) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert await plant.value("it_ok") == "fine"
        await plant.connectors.close()


async def test_an_event_that_is_cut_off_is_no_message(grow: Grow) -> None:
    async def answer(sent: Sent) -> Reply:
        reply = usual(sent)
        cut = Reply(200, b"data: " + reply.body[:-1], {"content-type": "text/event-stream"})
        return cut if sent.asks == "tools/call" else reply

    async with odd_server(answer) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert "ended without a response" in await plant.error("it_ok")
        await plant.connectors.close()


REFUSED = {
    "of its arguments": (Reply(400, told("text: is too long", -32602)), "text: is too long"),
    "of arguments, in JSON": (Reply(400, b'{"error": "amount is missing"}'), "amount is missing"),
    "of arguments, in detail": (Reply(400, b'{"detail": "text: is too long"}'), "text: is too long"),
    "of arguments, in text": (Reply(400, b"card declined"), "card declined"),
    "of an argument of that name": (Reply(400, told("session_date: must be a date", -32602)), "session_date: must be"),
    "of what it could not do": (Reply(400, told("could not initialize the browser")), "could not initialize the b"),
    "of an unknown tool": (Reply(404, told("no such tool", -32601)), "no such tool"),
    "of an argument for a session": (Reply(400, told("session_id: not found", -32602)), "session_id: not found"),
    "by a session elsewhere": (Reply(500, told("the session at the shop has expired")), "at the shop has expired"),
    "by a session that is over": (Reply(500, b"shop: Session expired or invalid"), "Session expired or invalid"),
    "by what it sells": (Reply(500, told("checkout session cs_1 not found", -32603)), "checkout session cs_1"),
    "by its browser": (Reply(502, b"invalid session for browser"), "invalid session for browser"),
    "by its browser's package": (
        Reply(500, told("MCP error -32603: unknown session of the browser")),
        "of the browser",
    ),
    "by its tracker": (Reply(403, told("Jira session expired")), "it answered 403 Forbidden"),
    "by its shop": (Reply(409, told("Your shopping session has expired")), "Your shopping session has expired"),
    "of a number": (Reply(422, told("no such session: 7")), "no such session: 7"),
    "with 200": (Reply(200, told("Session not found", -32603)), "Session not found"),
    "with 200, by its tracker": (Reply(200, told("Jira session expired")), "Jira session expired"),
    "as unauthorized": (Reply(401, b"Unauthorized"), "it wants credentials"),
    "with a challenge": (Reply(401, b"Session expired", {"www-authenticate": "Bearer"}), "it wants credentials"),
    "by the server's fault": (Reply(500, b"<html>"), "it answered 500 Internal Server Error"),
    "by a gateway": (Reply(502, b"no backend"), "it answered 502 Bad Gateway: no backend"),
    "for its rate": (Reply(429, b""), "it answered 429 Too Many Requests"),
}


@pytest.mark.parametrize(("reply", "words"), REFUSED.values(), ids=REFUSED.keys())
async def test_a_refused_call_says_why_and_ends_no_session(grow: Grow, reply: Reply, words: str) -> None:
    sessions = calls = 0

    async def answers(sent: Sent) -> Reply:
        nonlocal sessions, calls
        sessions += sent.asks == "initialize"
        calls += sent.asks == "tools/call"
        if sent.asks == "initialize":
            return Reply.result(sent, INITIALIZED, **{"mcp-session-id": "s"})
        return reply if sent.asks == "tools/call" else usual(sent)

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert words in await plant.error("it_ok")
        assert (plant.state("it").state, sessions, calls) == ("ready", 1, 1)
        await plant.connectors.close()


@pytest.mark.parametrize("answer", [Reply(404), Reply(400)])
async def test_what_is_answered_to_a_notification_says_nothing_of_the_session(grow: Grow, answer: Reply) -> None:
    sessions = 0
    noted: list[str] = []
    calls: list[Sent] = []

    async def answers(sent: Sent) -> Reply:
        nonlocal sessions
        if sent.asks == "initialize":
            sessions += 1
            return Reply.result(sent, INITIALIZED, **{"mcp-session-id": f"s{sessions}"})
        if sent.asks.startswith("notifications/"):
            noted.append(sent.asks)
            return answer
        if sent.asks == "tools/call":
            calls.append(sent)
            if len(calls) == 1:
                await asyncio.sleep(60)
        return usual(sent)

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url, "timeout_ms": 300})
        await plant.prepare()
        assert "deadline of 0.3 s" in await plant.error("it_ok")
        await until(lambda: noted == ["notifications/initialized", "notifications/cancelled"])
        assert await plant.value("it_ok") == "fine"
        assert (plant.state("it").state, sessions, len(calls)) == ("ready", 1, 2)
        await plant.connectors.close()


@pytest.mark.parametrize("slow", ["server/discover", "initialize", "tools/list"])
async def test_a_server_that_is_slow_at_first_has_the_time_that_it_was_given(grow: Grow, slow: str) -> None:
    async def answers(sent: Sent) -> Reply:
        await asyncio.sleep(0.3 if sent.asks == slow else 0)
        return usual(sent)

    async with odd_server(answers) as url:
        plant = grow(
            Timeouts(first_wait=10, connect=0.1, backoff=(30.0,)),
            it={"url": url, "start_timeout_ms": 60_000},
            short={"url": url},
        )
        await plant.prepare()
        assert await plant.value("it_ok") == "fine"
        await until(lambda: plant.state("short").state == "waiting")
        assert "within 0.1 s; the operator can raise that by start_timeout_ms" in plant.state("short").error
        await plant.connectors.close()


PASSED_OVER = {
    "a byte order mark": "sys.stdout.buffer.write(bytes((0xef, 0xbb, 0xbf)))",
    "a log that quotes messages": """EVERY = 'send("DEBUG " + line.strip()); send("[DEBUG] " + line[:20])'""",
    "words before an answer": """AT_CALL = 'sys.stdout.write("Loading {100%} ... ")'""",
    "a log of its answers": """
EVERY = 'send("DEBUG " + json.dumps({"id": asked["id"], "jsonrpc": "2.0", "result": answer}))'
""",
    "a length in a log": """AT_CALL = 'send("Content-Length: 40")'""",
}


@pytest.mark.parametrize("code", PASSED_OVER.values(), ids=PASSED_OVER.keys())
async def test_what_a_program_prints_beside_its_messages_is_passed_over(grow: Grow, code: str) -> None:
    plant = grow(ONCE, it=hostile(code))
    await plant.prepare()
    assert [await plant.value("it_ok") for _ in range(2)] == ["fine", "fine"]
    assert (plant.state("it").state, plant.state("it").error) == ("ready", None)


async def test_messages_behind_their_length_are_named(grow: Grow) -> None:
    plant = grow(
        ONCE, it=hostile("sys.stdout.write('Content-Length: 2\\r\\n\\r\\n{}'); sys.stdout.flush(); time.sleep(60)")
    )
    await plant.prepare()
    await until(lambda: plant.state("it").state == "waiting")
    assert "it puts Content-Length before its messages" in plant.state("it").error


PING = """
seen = []
AT_CALL = '''
seen.clear()
for number in range(500):
    ask = {"jsonrpc": "2.0", "id": IDENTITY, "method": "ping"PARAMS}
    send(FORM)
while len(seen) < 500:
    said = json.loads(sys.stdin.readline())
    if said.get("result") == {}:
        seen.append(said["id"])
'''
"""


@pytest.mark.parametrize(
    ("identity", "params", "form"),
    [
        ('f"ping-{number}"', "", "ask"),
        ("number", ', "params": {}', "ask"),
        ("7", ', "params": {"_meta": {"at": number}}', "ask"),
        ("number", ', "params": []', "ask"),
        ("number", ', "params": None', "ask"),
        ("number", "", "[ask]"),
    ],
    ids=["texts", "numbers", "one number", "of PHP", "params null", "in lists"],
)
async def test_pings_are_answered_and_never_count(grow: Grow, identity: str, params: str, form: str) -> None:
    code = PING.replace("IDENTITY", identity).replace("PARAMS", params).replace("FORM", form)
    plant = grow(ONCE, it=hostile(code))
    await plant.prepare()
    assert await plant.value("it_ok") == "fine"
    assert await plant.value("it_ok") == "fine"
    assert (plant.state("it").state, plant.state("it").error) == ("ready", None)


def _gzip(body: bytes) -> tuple[bytes, str]:
    return gzip.compress(body), "gzip"


def _zlib(body: bytes) -> tuple[bytes, str]:
    return zlib.compress(body), "deflate"


def _raw(body: bytes) -> tuple[bytes, str]:
    return zlib.compress(body, wbits=-15), "deflate"


def _members(body: bytes) -> tuple[bytes, str]:
    return gzip.compress(body[:20]) + gzip.compress(body[20:]), "x-gzip"


def _padded(body: bytes) -> tuple[bytes, str]:
    return gzip.compress(body) + bytes(7), "gzip"


def _unlabelled(body: bytes) -> tuple[bytes, str]:
    return gzip.compress(body), "identity"


def _labelled_only(body: bytes) -> tuple[bytes, str]:
    return body, "gzip"


def _charset(body: bytes) -> tuple[bytes, str]:
    return body, "UTF-8"


@pytest.mark.parametrize("compress", [_gzip, _zlib, _raw, _members, _padded, _unlabelled, _labelled_only, _charset])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_compressed_answer_is_read(grow: Grow, compress: Any, streamed: bool) -> None:
    async def answers(sent: Sent) -> Reply:
        reply = usual(sent)
        if reply.body and streamed:
            reply = Reply(200, b"event: message\ndata: " + reply.body + b"\n\n", {"content-type": "text/event-stream"})
        if reply.body:
            reply.body, reply.headers["content-encoding"] = compress(reply.body)
        return reply

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert plant.state("it").error is None
        assert await plant.value("it_ok") == "fine"
        await plant.connectors.close()


@pytest.mark.parametrize(
    ("body", "encoding", "words"),
    [
        (gzip.compress(b'{"a": "' + b"x" * 50_000_000 + b'"}', mtime=0), "gzip", "larger than the limit of 4 MiB"),
        (b"\x1f\x8b no gzip", "gzip", "compressed data is damaged"),
        (gzip.compress(b"{}" * 5000, mtime=0)[:20], "gzip", "ends in the middle"),
        (b"...", "br", "compressed its answer as 'br'"),
    ],
)
async def test_what_expands_too_far_or_is_damaged_is_an_error(
    grow: Grow, body: bytes, encoding: str, words: str
) -> None:
    async def answers(sent: Sent) -> Reply:
        return Reply(200, body, {"content-encoding": encoding}) if sent.asks == "tools/call" else usual(sent)

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert words in await plant.error("it_ok")
        await plant.connectors.close()


SLOW = """
REPORTS, PAUSE = {reports}, {pause}
AT_CALL = '''
token = asked["params"].get("_meta", {{}}).get("progressToken")
for number in range(REPORTS):
    time.sleep(PAUSE)
    send({{"jsonrpc": "2.0", "method": "notifications/progress",
          "params": {{"progressToken": token, "progress": number}}}})
time.sleep(PAUSE if REPORTS else 60)
'''
"""


async def test_an_error_as_the_list_of_new_tools_ends_no_call(grow: Grow) -> None:
    calling, noted = asyncio.Event(), asyncio.Event()
    lists = 0

    async def answers(sent: Sent) -> Reply:
        nonlocal lists
        if sent.method == "GET" and not calling.is_set():
            await calling.wait()
            return Reply(200, CHANGED, {"content-type": "text/event-stream"})
        if sent.asks == "initialize":
            return Reply.result(sent, INITIALIZED, **{"mcp-session-id": "s"})
        if sent.asks == "tools/call":
            calling.set()
            await noted.wait()
        if sent.asks == "tools/list":
            lists += 1
            if lists > 1 and not noted.is_set():
                return Reply.error(sent, -32603, "not now")
        return usual(sent, list={"tools": [OK_TOOL, *([{**OK_TOOL, "name": "later"}] if lists > 1 else [])]})

    async with odd_server(answers) as url:
        plant = grow(Timeouts(first_wait=10, relist=0.05, backoff=(30.0,)), it={"url": url})
        await plant.prepare()
        call = asyncio.create_task(plant.value("it_ok"))
        await until(lambda: plant.state("it").faults)
        assert plant.state("it").faults == ["its tools have changed and could not be listed again: not now"]
        noted.set()
        assert await call == "fine"
        await until(lambda: "it_later" in plant.names)
        assert plant.state("it").faults == []
        await plant.connectors.close()


@pytest.mark.slow
async def test_a_server_that_lists_nothing_during_a_call_keeps_it(grow: Grow) -> None:
    """It announces new tools in the call, which goes on until the runtime has given up to list them."""
    calling, given_up = asyncio.Event(), asyncio.Event()
    lists = 0

    async def answers(sent: Sent) -> Reply:
        nonlocal lists
        if sent.method == "GET" and not calling.is_set():
            await calling.wait()
            return Reply(200, CHANGED, {"content-type": "text/event-stream"})
        if sent.asks == "initialize":
            return Reply.result(sent, INITIALIZED, **{"mcp-session-id": "s"})
        if sent.asks == "tools/call":
            calling.set()
            await given_up.wait()
        if sent.asks == "notifications/cancelled":
            given_up.set()
        if sent.asks == "tools/list":
            lists += 1
            if lists == 2:
                await given_up.wait()
        return usual(sent, list={"tools": [OK_TOOL, *([{**OK_TOOL, "name": "later"}] if lists > 2 else [])]})

    async with odd_server(answers) as url:
        plant = grow(Timeouts(first_wait=10, connect=2, relist=0.05, backoff=(30.0,)), it={"url": url})
        await plant.prepare()
        assert await plant.value("it_ok") == "fine"
        await until(lambda: "it_later" in plant.names)
        await plant.connectors.close()


@pytest.mark.slow
async def test_a_call_that_reports_progress_has_more_time(grow: Grow) -> None:
    """It takes two deadlines, and never one without a report."""
    plant = grow(ONCE, ToolGate(timeout=1.5), it=hostile(SLOW.format(reports=9, pause=0.3)))
    await plant.prepare()
    assert await plant.value("it_ok") == "fine"


@pytest.mark.slow
@pytest.mark.parametrize(("reports", "words"), [(0, "deadline of 0.2 s;"), (100, "or 2 s in all;")])
async def test_a_deadline_names_what_sets_it(grow: Grow, reports: int, words: str) -> None:
    plant = grow(ONCE, it=hostile(SLOW.format(reports=reports, pause=0.1)) | {"timeout_ms": 200})
    await plant.prepare()
    error = await plant.error("it_ok")
    assert words in error
    assert "timeout_ms of the server it in mcp.json" in error


ENDPOINT = "event: endpoint\ndata: /messages?session=1\n\n"
OLDER = {
    "405": (Reply(405), "it answered 405"),
    "404": (Reply(404), "it answered 404"),
    "400": (Reply(400, b"Missing session"), "it answered 400"),
    "500": (Reply(500, b"oops"), "it answered 500"),
    "202": (Reply(202), "202 Accepted"),
    "a page": (Reply(200, b"<p>Hello", {"content-type": "text/html"}), "Unexpected content type: text/html"),
    "the stream": (Reply(200, ENDPOINT.encode(), {"content-type": "text/event-stream"}), "ended without a response"),
}


BEFORE_IT = ["\ufeff", ": hello\n\nretry: 3000\n", "event: ping\ndata: 1\n\n"]


@pytest.mark.parametrize(
    ("post", "words", "before", "end"),
    [
        *((*one, "", "\n") for one in OLDER.values()),
        (*OLDER["405"], "", "\r\n"),
        *((*OLDER["404"], before, "\n") for before in BEFORE_IT),
    ],
    ids=[*OLDER, "other line ends", "behind a mark", "behind a comment", "behind a ping"],
)
async def test_a_server_of_the_older_transport_is_named(
    grow: Grow, post: Reply, words: str, before: str, end: str
) -> None:
    async def answers(sent: Sent) -> Reply:
        if sent.method == "GET":
            event = f"{before}{ENDPOINT}".replace("\n", end).encode()
            return Reply(200, event, {"content-type": "text/event-stream; charset=utf-8"})
        return post

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        await until(lambda: plant.state("it").state == "waiting")
        assert words in plant.state("it").error
        assert "HTTP with SSE, the transport of 2024-11-05" in plant.state("it").error
        await plant.connectors.close()


async def test_another_refusal_is_not_taken_for_the_older_transport(grow: Grow) -> None:
    async def answers(sent: Sent) -> Reply:
        return Reply(503, b"down for maintenance")

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        await until(lambda: plant.state("it").state == "waiting")
        assert plant.state("it").error == "it answered 503 Service Unavailable: down for maintenance"
        await plant.connectors.close()


LONG = f"Does one thing. {'And more. ' * 60}It ends with the word heron."


@pytest.mark.parametrize(("extra", "more"), [(0, ""), (30, ""), (30, f"\n{'Slowly. ' * 900}")])
async def test_what_a_server_says_of_its_tools_is_found_by_tool_search(grow: Grow, extra: int, more: str) -> None:
    """With few tools, which are all in the model's list, with many, and with much that is said."""
    from dataclasses import replace

    from agent_runtime.tools import ToolRegistry
    from agent_runtime.tools.agent.tool_search import tool_search_tool

    schema = {"type": "object", "properties": {"mode": {"type": "string", "description": f"{'x ' * 150}crane"}}}
    listed = [OK_TOOL, {"name": "long", "description": LONG, "inputSchema": schema}]
    listed += [{**OK_TOOL, "name": f"more{number}"} for number in range(extra)]
    told = f"Call long before ok.\nNever twice.{more.rstrip()}"
    begin = {**INITIALIZED, "instructions": told}

    async def answers(sent: Sent) -> Reply:
        return usual(sent, initialize=begin, list={"tools": listed}, call=FINE)

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        tools = ToolRegistry((tool_search_tool(),), plant.connectors, gate=plant.gate).snapshot()
        found = await tools.run("tool_search", {"query": "it long"}, replace(plant.context))
        assert isinstance(found, ToolResult), found
        assert found.data, found
        assert "heron" in found.data["matches"][0]["description"]
        assert "crane" in found.data["matches"][0]["description"]
        assert found.data["servers"] == [{"name": "it", "instructions": told}]
        assert bool(found.added_tools) is bool(extra)
        await plant.connectors.close()


async def test_requests_of_a_server_may_come_for_as_long_as_it_lives() -> None:
    from agent_runtime.connectors.rate_limit import MAX_REQUESTS, LimitExceeded, MessageRateLimiter

    now = 0.0
    limiter = MessageRateLimiter(lambda: now, asyncio.sleep)
    for _ in range(10 * MAX_REQUESTS):
        now += 3
        limiter.count_request()
    for _ in range(MAX_REQUESTS - 1):
        limiter.count_request()
    with pytest.raises(LimitExceeded):
        limiter.count_request()


async def test_a_stream_that_always_ends_is_not_opened_again_without_a_pause(grow: Grow) -> None:
    """A server says when it wants the next one, and may say at once, for ever."""
    opened: list[float] = []

    async def answers(sent: Sent) -> Reply:
        if sent.method == "GET":
            opened.append(asyncio.get_running_loop().time())
            return Reply(200, b"retry: 0\nid: 1\n\n", {"content-type": "text/event-stream"})
        if sent.asks == "initialize":
            return Reply.result(sent, INITIALIZED, **{"mcp-session-id": "s"})
        return usual(sent)

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        await until(lambda: len(opened) > MAX_STREAMS + 1)
        assert opened[MAX_STREAMS + 1] - opened[0] > 1
        await plant.connectors.close()
