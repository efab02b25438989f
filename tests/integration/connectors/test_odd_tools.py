"""What servers list and answer that is not quite of the protocol's form: the rest of it works, and what does not is
named."""

from __future__ import annotations

import gzip
import json
import math
from base64 import b64encode
from typing import Any

import pytest

from agent_runtime.connectors import Timeouts

from .conftest import Grow, until
from .odd_http import INITIALIZED, OK_TOOL, Reply, Sent, odd_server, usual
from .test_hostile import hostile

ONCE = Timeouts(first_wait=10, backoff=(30.0,))
SCHEMA: dict[str, Any] = {"type": "object"}
MANY_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {f"p{number}": {"type": "string", "description": "What it is about."} for number in range(15)},
}
CHANGED = b'data: {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n\n'


def tool(name: str = "odd", **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": "Odd.", "inputSchema": SCHEMA, **fields}


def without_schema() -> dict[str, Any]:
    return {"name": "odd", "description": "Odd."}


MENDED = {
    "schema null": tool(inputSchema=None),
    "schema missing": without_schema(),
    "schema empty": tool(inputSchema={}),
    "schema of PHP": tool(inputSchema=[]),
    "schema true": tool(inputSchema=True),
    "anyOf at the top": tool(inputSchema={"anyOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]}),
    "several types": tool(inputSchema={"type": ["object", "null"]}),
    "type in capitals": tool(inputSchema={"type": "OBJECT"}),
    "properties null": tool(inputSchema={"type": "object", "properties": None}),
    "properties of PHP": tool(inputSchema={"type": "object", "properties": []}),
    "a property null": tool(inputSchema={"type": "object", "properties": {"a": None}}),
    "numbers that are none": tool(
        inputSchema={"type": "object", "properties": {"a": {"default": math.nan, "maximum": math.inf}}}
    ),
    "an inner requirement a list": tool(
        inputSchema={"type": "object", "properties": {"a": {"type": "object", "required": [["b"], {"name": "c"}]}}}
    ),
    "required true": tool(inputSchema={"type": "object", "required": True}),
    "dialect a number": tool(inputSchema={"type": "object", "$schema": 7}),
    "output without type": tool(outputSchema={"properties": {"a": {"type": "string"}}}),
    "output null": tool(outputSchema=None),
    "output a list": tool(outputSchema=[]),
    "title a number": tool(title=7),
    "description a list": tool(description=["Odd."]),
    "annotations a list": tool(annotations=[]),
    "a hint in words": tool(annotations={"readOnlyHint": "yes", "title": 7}),
    "icons a text": tool(icons="odd.png"),
    "execution a text": tool(execution="never"),
    "half an emoji": tool(description="Odd. \ud83d"),
    "meta null": tool(_meta=None),
    "meta a list": tool(_meta=[]),
}
NEEDS = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
SCHEMAS = {
    "in snake case": {"name": "odd", "input_schema": NEEDS},
    "as parameters": tool(inputSchema=None, parameters=NEEDS),
    "in both": tool(inputSchema=NEEDS, parameters={"type": "object"}),
}
LEFT_OUT = {
    "null": (None, "tool 2 of the list: it is null"),
    "a text": ("odd", "tool 2 of the list: it is a string"),
    "no name": ({"inputSchema": SCHEMA}, "tool 2 of the list: it has no name"),
    "name a number": (tool(name=7), "tool 2 of the list: it has no name"),  # pyright: ignore[reportArgumentType]
    "schema a text": (tool(inputSchema="{}"), "odd: its inputSchema is a string"),
    "schema false": (tool(inputSchema=False), "odd: its inputSchema is a boolean"),
    "schema for a text": (tool(inputSchema={"type": "string"}), "odd: its inputSchema is for 'string'"),
    "listed twice": (tool("ok"), "ok: it is listed more than once"),
    "name too long": (tool("x" * 200), f"{'x' * 40}"),
}


@pytest.mark.parametrize("odd", MENDED.values(), ids=MENDED.keys())
async def test_an_odd_tool_is_mended_and_takes_no_other_away(grow: Grow, odd: dict[str, Any]) -> None:
    async def answers(sent: Sent) -> Reply:
        return usual(sent, list={"tools": [OK_TOOL, odd, tool("last")]})

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert plant.names == ["it_last", "it_odd", "it_ok"], plant.state("it").error
        assert plant.state("it").faults == []
        json.dumps([tool.spec.parameters for tool in plant.connectors.tools()], allow_nan=False)
        assert [await plant.value(name) for name in plant.names] == ["fine"] * 3
        await plant.connectors.close()


@pytest.mark.parametrize("odd", SCHEMAS.values(), ids=SCHEMAS.keys())
async def test_a_schema_is_found_under_another_name(grow: Grow, odd: dict[str, Any]) -> None:
    async def answers(sent: Sent) -> Reply:
        return usual(sent, list={"tools": [odd, tool("last", parameters=["amount"])]})

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert "amount" in await plant.error("it_odd")
        assert await plant.value("it_odd", amount=1) == "fine"
        await plant.connectors.close()


@pytest.mark.parametrize(("odd", "told"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
async def test_a_tool_that_cannot_be_called_is_left_out_by_name(grow: Grow, odd: Any, told: str) -> None:
    async def answers(sent: Sent) -> Reply:
        return usual(sent, list={"tools": [OK_TOOL, odd, tool("last")]})

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert plant.names == ["it_last", "it_ok"], plant.state("it").error
        assert len(plant.state("it").faults) == 1
        assert plant.state("it").faults[0].startswith(told)
        assert await plant.value("it_ok") == "fine"
        await plant.connectors.close()


LISTS: dict[str, Any] = {
    "by their names": {"ok": {"inputSchema": SCHEMA}, "last": {"name": "last"}},
    "by their numbers": {"0": OK_TOOL, "1": tool("last")},
    "one, without a list": OK_TOOL,
}


@pytest.mark.parametrize("listed", LISTS.values(), ids=LISTS.keys())
async def test_tools_are_found_in_what_is_no_list(grow: Grow, listed: Any) -> None:
    async def answers(sent: Sent) -> Reply:
        return usual(sent, list={"tools": listed})

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert plant.names == (["it_ok"] if listed is OK_TOOL else ["it_last", "it_ok"]), plant.state("it").faults
        assert await plant.value("it_ok") == "fine"
        await plant.connectors.close()


def handshake(**fields: Any) -> dict[str, Any]:
    return {**INITIALIZED, **fields}


HANDSHAKES = {
    "no capabilities": handshake(capabilities={}),
    "capabilities null": handshake(capabilities=None),
    "capabilities of PHP": handshake(capabilities=[]),
    "tools of PHP": handshake(capabilities={"tools": []}),
    "tools true": handshake(capabilities={"tools": True}),
    "listChanged in words": handshake(capabilities={"tools": {"listChanged": "yes"}}),
    "other capabilities odd": handshake(capabilities={"tools": {}, "logging": [], "experimental": {"a": True}}),
    "no version": handshake(serverInfo={"name": "odd"}),
    "version a number": handshake(serverInfo={"name": "odd", "version": 1}),
    "no server info": handshake(serverInfo=None),
    "instructions a list": handshake(instructions=["Be careful."]),
    "meta null": handshake(_meta=None),
    "protocol missing": {word: one for word, one in INITIALIZED.items() if word != "protocolVersion"},
    "protocol null": handshake(protocolVersion=None),
    "protocol a number": handshake(protocolVersion=2025.0),
    "nothing": {},
}


@pytest.mark.parametrize("initialized", HANDSHAKES.values(), ids=HANDSHAKES.keys())
async def test_an_odd_handshake_is_understood(grow: Grow, initialized: dict[str, Any]) -> None:
    async def answers(sent: Sent) -> Reply:
        return usual(sent, initialize=initialized)

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert plant.state("it").error is None
        assert await plant.value("it_ok") == "fine"
        await plant.connectors.close()


@pytest.mark.parametrize("listed", [{"tools": []}, {"tools": None}, {}, None])
async def test_a_server_without_tools_says_so(grow: Grow, listed: Any) -> None:
    """None: it answers that there is no such method."""

    async def answers(sent: Sent) -> Reply:
        if listed is None and sent.asks == "tools/list":
            return Reply.error(sent, -32601, "Method not found")
        return usual(sent, initialize=handshake(capabilities={}), list=listed)

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert (plant.state("it").state, plant.state("it").error) == ("ready", None)
        assert plant.state("it").faults == ["it lists no tools"]
        await plant.connectors.close()


TEXT = {"type": "text", "text": "read me"}


def nested(value: Any, levels: int) -> Any:
    return [nested(value, levels - 1)] if levels else value


def resource(**fields: Any) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": "it://x", **fields}}


def blob(data: bytes, kind: str | None = None) -> dict[str, Any]:
    """A result with a file as bytes."""
    return {"content": [resource(blob=b64encode(data).decode(), **({"mimeType": kind} if kind else {}))]}


DEEP = nested("read me", 150)
READ = {
    "a part of an unknown type": (
        {"content": [TEXT, {"type": "video", "url": "a.mp4"}]},
        ["read me", "video", "a.mp4"],
    ),
    "an unknown text": (
        {"content": [{"type": "output_text", "text": "read me"}]},
        ["read me", "output_text"],
    ),
    "isError null": ({"content": [TEXT], "isError": None}, ["read me"]),
    "structuredContent a list": ({"content": [], "structuredContent": ["read me"]}, ["read me"]),
    "structuredContent a text": ({"content": [], "structuredContent": "read me"}, ["read me"]),
    "structuredContent null": ({"content": [TEXT], "structuredContent": None}, ["read me"]),
    "numbers that are none": (
        {"content": [TEXT], "structuredContent": {"mean": math.nan, "all": [[-math.inf, 1]]}},
        ["read me", "'mean': 'NaN'", "'all': [['-Infinity', 1]]"],
    ),
    "structured content too deep": ({"content": [], "structuredContent": {"a": DEEP}}, ["read me"]),
    "structured content too deep beside text": ({"content": [TEXT], "structuredContent": DEEP}, ["read me\n[[["]),
    "structured content in snake case": ({"content": [], "structured_content": {"a": "read me"}}, ["read me"]),
    "words beside empty content": ({"content": [], "output": "read me"}, ["output", "read me"]),
    "content null": ({"content": None, "structuredContent": {"a": "read me"}}, ["read me"]),
    "no content": ({"structuredContent": {"a": "read me"}}, ["read me"]),
    "content an object": ({"content": TEXT}, ["read me"]),
    "content a text": ({"content": "read me"}, ["read me"]),
    "parts that are texts": ({"content": ["read me"]}, ["read me"]),
    "a part null": ({"content": [None, TEXT]}, ["read me"]),
    "a text that is a number": ({"content": [TEXT, {"type": "text", "text": 7}]}, ["read me", "7"]),
    "an image without its type": ({"content": [TEXT, {"type": "image", "data": "aGk="}]}, ["read me", "image"]),
    "an image without data": ({"content": [TEXT, {"type": "image"}]}, ["read me", "image"]),
    "a resource without uri": (
        {"content": [{"type": "resource", "resource": {"text": "read me"}}]},
        ["read me", "resource"],
    ),
    "a text as bytes": (blob(b"read me\n", "text/x-csharp; charset=utf-8"), ["'text': 'read me\\n'"]),
    "JSON as bytes": (blob(b'{"a": "read me"}', "application/vnd.api+json"), ["read me"]),
    "bytes without a type": (blob("caf\u00e9 read me".encode()), ["caf\u00e9 read me"]),
    "another encoding": (blob(b"read me, caf\xe9", "text/csv"), ["read me, caf\ufffd"]),
    "a packed text": (blob(gzip.compress(b"read me"), "text/plain"), ["'bytes': "]),
    "bytes that are no text": (blob(b"\x89\xe9\x10"), ["'bytes': "]),
    "bytes of an image": (blob(b"P1 1 1 1", "image/x-portable-bitmap"), ["'bytes': "]),
    "broken bytes": ({"content": [resource(blob="read me!", mimeType="text/plain")]}, ["'bytes': 6"]),
    "half an emoji": ({"content": [{"type": "text", "text": "read me \ude00"}]}, ["read me \ufffd"]),
    "annotations odd": ({"content": [{**TEXT, "annotations": {"audience": "everyone"}}]}, ["read me"]),
    "meta a list": ({"content": [TEXT], "_meta": []}, ["read me"]),
    "much of an unknown type": (
        {"content": [{"type": "json", "json": {"rows": ["x" * 100] * 90, "file": "y" * 9000, "last": "read me"}}]},
        ["read me", "y... (9000 characters)"],
    ),
    "an older form with content": ({"toolResult": {"content": [TEXT]}}, ["read me"]),
    "an older form": ({"toolResult": {"a": "read me"}}, ["read me"]),
}


@pytest.mark.parametrize(("result", "words"), READ.values(), ids=READ.keys())
async def test_what_is_readable_of_a_result_is_read(grow: Grow, result: Any, words: list[str]) -> None:
    async def answers(sent: Sent) -> Reply:
        return usual(sent, call=result)

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        found = str(await plant.value("it_ok"))
        assert all(word in found for word in words), found
        await plant.connectors.close()


LOOSE = {
    "a code in words": ({"error": {"code": "ENOENT", "message": "no such file"}}, "no such file"),
    "no message": ({"error": {"code": -1, "reason": "no luck"}}, "no luck"),
    "details": ({"error": {"code": -32602, "message": "invalid", "data": {"at": "rows"}}}, 'invalid\n{"at": "rows"}'),
    "a text": ({"error": "boom", "result": None}, "boom"),
    "half an emoji": ({"error": {"code": -1, "message": "boom \ud83d"}}, "boom \ufffd"),
    "no result": ({"result": None}, ""),
    "a list": ({"result": [TEXT], "error": None}, "read me"),
}


@pytest.mark.parametrize(("answer", "words"), LOOSE.values(), ids=LOOSE.keys())
@pytest.mark.parametrize("by", ["body", "events", "pipes"])
async def test_an_answer_of_another_form_is_understood(grow: Grow, answer: Any, words: str, by: str) -> None:
    async def answers(sent: Sent) -> Reply:
        if sent.asks != "tools/call":
            return usual(sent)
        body = json.dumps({"jsonrpc": "2.0", "id": sent.message["id"], **answer}).encode()
        if by == "events":
            return Reply(200, b"event: message\ndata: " + body + b"\n\n", {"content-type": "text/event-stream"})
        return Reply(200, body)

    at_call = f"send({{'jsonrpc': '2.0', 'id': asked['id'], **{answer!r}}})"
    async with odd_server(answers) as url:
        plant = grow(ONCE, it=hostile(f"AT_CALL = {at_call!r}") if by == "pipes" else {"url": url})
        await plant.prepare()
        found = await plant.call("it_ok")
        assert words in (found.error_text or "" if answer.get("error") else str(found.data)), found
        assert plant.state("it").state == "ready"
        await plant.connectors.close()


JSON = "application/json"
REPLIES: dict[str, tuple[str, str, str]] = {
    "as text": ("text/plain", "%s", "fine"),
    "as a page": ("text/html; charset=utf-8", " %s", "fine"),
    "of no type": ("", "%s", "fine"),
    "as other JSON": ("application/vnd.mcp+json", "\ufeff%s", "fine"),
    "with a byte order mark": (JSON, "\ufeff%s", "fine"),
    "in a list": (JSON, "[%s]", "fine"),
    "without version and identity": (JSON, '{"result": {"content": "fine"}}', "fine"),
    "in an event without identity": ("text/event-stream", 'data: {"result": {"content": "fine"}}\n\n', "fine"),
    "events as text": ("text/plain", "event: message\ndata: %s\n\n", "fine"),
    "events of no type": ("", "\ufeff\nid: 7\ndata: %s\n\n", "fine"),
    "events as JSON": (JSON, ": hello\n\ndata: %s\n\n", "fine"),
    "JSON as events": ("text/event-stream", "\r\n%s", "fine"),
    "no words at all": ("text/plain", " " * 9000, "Unexpected content type: text/plain"),
    "an error for nobody": (JSON, '{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "boom"}}', "boom"),
    "a page": ("text/html", "<p>Sign in", "Unexpected content type: text/html"),
    "too much text": ("text/plain", f'["{"x" * (4 * 1024 * 1024)}", %s]', "larger than the limit of 4 MiB"),
}


@pytest.mark.parametrize(("kind", "form", "words"), REPLIES.values(), ids=REPLIES.keys())
async def test_an_answer_over_http_is_understood_whatever_it_is_called(
    grow: Grow, kind: str, form: str, words: str
) -> None:
    async def answers(sent: Sent) -> Reply:
        reply = usual(sent)
        if sent.asks != "tools/call":
            return reply
        return Reply(200, form.replace("%s", reply.body.decode()).encode(), {"content-type": kind})

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        found = await plant.call("it_ok")
        assert words in str(found.data if words == "fine" else found.error_text), found
        await plant.connectors.close()


LINES = "\n".join(f"line {number} of the trace" for number in range(100))
RESOURCE = {"type": "resource", "resource": {"uri": "file:///log", "text": "no luck"}}
FAILED = {
    "a part of an unknown type": ({"content": [{"type": "problem", "text": "no luck"}]}, ["no luck"]),
    "many lines": ({"content": [{"type": "text", "text": LINES}]}, [LINES]),
    "a long one": (
        {"content": [{"type": "text", "text": "x" * 14_991 + "THE CAUSE"}]},
        ["(15000 characters)", "THE CAUSE"],
    ),
    "structured content only": ({"content": [], "structuredContent": {"why": "no luck"}}, ['"why": "no luck"']),
    "structured content too": ({"content": [TEXT], "structuredContent": {"why": "no luck"}}, ["read me\n", "no luck"]),
    "a wrapped text": ({"structuredContent": "no luck"}, ["no luck"]),
    "a resource": ({"content": [TEXT, RESOURCE]}, ["read me\nno luck"]),
    "a resource as bytes": (blob(b"quota exceeded"), ["quota exceeded"]),
    "an older form": ({"toolResult": {"content": [TEXT], "isError": True}, "isError": None}, ["read me"]),
    "no words": ({"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"}]}, ["does not say why"]),
}


@pytest.mark.parametrize("mark", ["isError", "is_error"])
@pytest.mark.parametrize(("result", "words"), FAILED.values(), ids=FAILED.keys())
async def test_an_error_of_a_tool_stays_one_with_its_words(
    grow: Grow, result: Any, words: list[str], mark: str
) -> None:
    async def answers(sent: Sent) -> Reply:
        return usual(sent, call={mark: True, **result})

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        error = await plant.error("it_ok")
        assert all(word in error for word in words), error
        await plant.connectors.close()


@pytest.mark.parametrize(("count", "a_page"), [(260, 260), (100, 4), (1000, 300), (1000, 1000)])
async def test_all_tools_that_fit_are_there(grow: Grow, count: int, a_page: int) -> None:
    async with odd_server(_pages(count, a_page, MANY_PARAMETERS)) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert len(plant.names) == count, plant.state("it").error
        assert plant.state("it").faults == []
        await plant.connectors.close()


@pytest.mark.parametrize(
    ("count", "a_page", "kept", "told"),
    [
        (1030, 1030, 1000, "30 of its tools are left out"),
        (1030, 515, 1000, "30 of its tools are left out"),
        (400, 1, 250, "the rest of its list is left out"),
    ],
)
async def test_how_many_tools_are_left_out_is_said(grow: Grow, count: int, a_page: int, kept: int, told: str) -> None:
    async with odd_server(_pages(count, a_page)) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert len(plant.names) == kept
        assert [line[: len(told)] for line in plant.state("it").faults] == [told]
        await plant.connectors.close()


async def test_an_error_on_a_later_page_takes_no_tools_away(grow: Grow) -> None:
    pages = _pages(30, 10)

    async def answers(sent: Sent) -> Reply:
        late = sent.asks == "tools/list" and sent.message.get("params", {}).get("cursor") == "20"
        return Reply.error(sent, -32603, "no such page") if late else await pages(sent)

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert len(plant.names) == 20
        assert plant.state("it").faults == ["the rest of its list is left out: no such page"]
        assert await plant.value("it_t1") == "fine"
        await plant.connectors.close()


@pytest.mark.parametrize(("failing", "meanwhile"), [(1, 10), (2, 30)], ids=["of the first list", "of a later list"])
async def test_a_page_that_fails_once_takes_no_tools_away(grow: Grow, failing: int, meanwhile: int) -> None:
    pages, lists = _pages(30, 10), 0
    known: list[int] = []

    async def answers(sent: Sent) -> Reply:
        nonlocal lists
        reply = await pages(sent)
        cursor = sent.message.get("params", {}).get("cursor")
        if sent.asks == "tools/list" and cursor is None:
            lists += 1
            known.append(len(plant.names))
        if sent.asks == "tools/list" and cursor == "10" and lists == failing:
            return Reply(503, b"busy")
        if sent.asks == "tools/call":
            return Reply(200, CHANGED + b"data: " + reply.body + b"\n\n", {"content-type": "text/event-stream"})
        return reply

    async with odd_server(answers) as url:
        plant = grow(Timeouts(first_wait=10, backoff=(30.0,), relist=0.05), it={"url": url})
        await plant.prepare()
        if failing > 1:
            assert await plant.value("it_t1") == "fine"
        await until(lambda: lists > failing and len(plant.names) == 30 and not plant.state("it").faults)
        assert known[failing] == meanwhile
        await plant.connectors.close()


async def test_pages_in_a_circle_end(grow: Grow) -> None:
    async def answers(sent: Sent) -> Reply:
        at = sent.message.get("params", {}).get("cursor", "a")
        return usual(sent, list={"tools": [tool(f"at_{at}")], "nextCursor": {"a": "b", "b": "a"}[at]})

    async with odd_server(answers) as url:
        plant = grow(ONCE, it={"url": url})
        await plant.prepare()
        assert "it_at_b" in plant.names
        await plant.connectors.close()


def _pages(count: int, a_page: int, schema: dict[str, Any] = SCHEMA) -> Any:
    async def answers(sent: Sent) -> Reply:
        at = int(sent.message.get("params", {}).get("cursor", 0))
        page: dict[str, Any] = {
            "tools": [tool(f"t{at + one}", inputSchema=schema) for one in range(min(a_page, count - at))]
        }
        if at + a_page < count:
            page["nextCursor"] = str(at + a_page)
        return usual(sent, list=page)

    return answers
