"""An MCP server over HTTP that asks for a token, and the endpoint that hands tokens out; both keep count.

Made of the `mcp` package behind a few lines of ASGI: `python stand_in.py PORT`. `GET /counts` tells; `POST /set`
changes what is accepted; `POST /reset` makes it as it was at first.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any
from urllib.parse import parse_qs

import uvicorn
from mcp.server.mcpserver import MCPServer  # noqa: TID253  a program of its own

server = MCPServer("guarded")
counts: Counter[str] = Counter()
FRESH: dict[str, Any] = {
    "access": "access-1",
    "refresh": "refresh-1",
    "rotate": True,
    "redirect": None,
    "status": 0,
    "method": None,
    "challenge": "",
    "refusal": None,
}
"""`refusal` is the status and error of the token endpoint, where the form has the field.
`status` is the answer, with `challenge`, to requests of this `method` of MCP, or to all."""
state = dict(FRESH)


@server.tool()
def hello(name: str) -> str:
    """Greets."""
    return f"hello {name}"


mcp_app = server.streamable_http_app()


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        await mcp_app(scope, receive, send)
        return
    path, headers = scope["path"], {name.decode(): value.decode() for name, value in scope["headers"]}
    counts[path] += 1
    if path == "/counts":
        await answer(send, 200, {**counts, "seen": state.get("seen"), "form": state.get("form")})
    elif path == "/set":
        state.update(json.loads(await body(receive)))
        await answer(send, 200, {})
    elif path == "/reset":
        counts.clear()
        state.clear()
        state.update(FRESH)
        await answer(send, 200, {})
    elif path == "/token":
        await token(send, parse_qs((await body(receive)).decode()), headers)
    elif path == "/elsewhere":
        state["seen"] = headers
        await answer(send, 200, {})
    elif state["redirect"]:
        await answer(send, 307, {}, location=state["redirect"])
    elif state["status"] and state["method"] in (None, headers.get("mcp-method")):
        await answer(send, state["status"], {"error": "as told"}, **{"www-authenticate": state["challenge"]})
    elif state["access"] and headers.get("authorization") != f"Bearer {state['access']}":
        await answer(send, 401, {"error": "invalid_token"})
    else:
        await mcp_app(scope, receive, send)


async def token(send: Any, form: dict[str, list[str]], headers: dict[str, str]) -> None:
    state["form"] = {**form, "authorization": headers.get("authorization")}
    if state["refusal"] and state["refusal"]["field"] in form:
        refused = {"error": state["refusal"]["error"], "error_description": f"{form} is no good"}
        await answer(send, state["refusal"]["status"], refused)
        return
    own = form.get("grant_type") == ["client_credentials"]
    if not own and (form.get("refresh_token") != [state["refresh"]] or form.get("client_id", ["me"]) != ["me"]):
        await answer(send, 400, {"error": "invalid_grant", "error_description": f"{form} is no good"})
        return
    counts["renewed"] += 1
    given = {"access_token": state["access"], "token_type": "Bearer"}
    if state["rotate"] and not own:
        state["refresh"] = f"refresh-{counts['renewed'] + 1}"
        given["refresh_token"] = state["refresh"]
    await answer(send, 200, given)


async def answer(send: Any, status: int, content: Any, **headers: str) -> None:
    given = [(name.encode(), value.encode()) for name, value in {"content-type": "application/json", **headers}.items()]
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})


async def body(receive: Any) -> bytes:
    found = b""
    while True:
        message = await receive()
        found += message.get("body", b"")
        if not message.get("more_body"):
            return found


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
