"""A real MCP server of the `mcp` package: `demo_server.py stdio [MORE TOOLS]`, or `demo_server.py http PORT`."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context, MCPServer  # noqa: TID253  a program of its own
from mcp.server.mcpserver.exceptions import ToolError  # noqa: TID253  a program of its own
from mcp.server.mcpserver.utilities.types import Image  # noqa: TID253  a program of its own
from mcp_types import ToolAnnotations
from pydantic import BaseModel, Field

server = MCPServer("demo")
calls = 0


class Place(BaseModel):
    city: str
    zip: Annotated[str | None, Field(pattern=r"^(\d+)+$")] = None


@server.tool(
    description="Adds two whole numbers. " + "It is good at that. " * 50,
    annotations=ToolAnnotations(read_only_hint=True),
)
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
def count() -> str:
    """How many calls of echo there were."""
    return str(calls)


@server.tool()
def echo(text: str) -> str:
    """Says it again."""
    global calls  # noqa: PLW0603
    calls += 1
    return text


@server.tool()
def where(place: Place, kind: Literal["a", "b"] = "a") -> dict[str, Any]:
    """Takes an object that is defined elsewhere in the schema."""
    return {"place": place.model_dump(), "kind": kind}


@server.tool()
def fail(why: str) -> str:
    """Always fails."""
    raise ToolError(why)


@server.tool()
async def slow(seconds: float) -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return "done"


@server.tool()
def die(words: str = "") -> str:
    """Ends the server."""
    print(words, file=sys.stderr, flush=True)
    os._exit(7)


@server.tool()
def big(size: int) -> str:
    """A long text."""
    return "x" * size


@server.tool()
def picture() -> Image:
    """An image."""
    return Image(data=b"\x89PNG" + b"0" * 3000, format="png")


@server.tool()
def variable(name: str) -> str:
    """A variable of the environment."""
    return os.environ.get(name, "unset")


@server.tool()
def read_file(path: str) -> str:
    """A file as text."""
    return Path(path).read_text()


@server.tool()
def write_file(path: str, text: str) -> str:
    """Writes a file."""
    Path(path).write_text(text)
    return "written"


@server.tool()
def fetch(url: str) -> str:
    """What a page says, through the proxy that the environment names."""
    import urllib.request

    with urllib.request.urlopen(url, timeout=5) as page:
        return page.read().decode()


@server.tool()
async def grow(name: str, ctx: Context) -> str:
    """A further tool appears."""
    server.add_tool(lambda: name, name=name, description="Grown later.")
    await ctx.session.send_tool_list_changed()  # as clients of older protocols are told
    await ctx.notify_tools_changed()
    return "grown"


@server.tool()
async def ask_model(ctx: Context) -> str:
    """Wants the client's model, which is not for servers."""
    from mcp_types import SamplingMessage, TextContent

    try:
        await ctx.session.create_message(  # pyright: ignore[reportDeprecated]
            [SamplingMessage(role="user", content=TextContent(type="text", text="hi"))], max_tokens=10
        )
    except Exception as refusal:  # noqa: BLE001
        return f"refused: {refusal}"
    return "answered"


def main() -> None:
    more = int(sys.argv[2]) if sys.argv[1] == "stdio" and len(sys.argv) > 2 else 0
    for number in range(more):
        server.add_tool(lambda: "ok", name=f"tool_{number:02}", description=f"Does thing number {number}.")
    if sys.argv[1] == "http":
        import uvicorn
        from mcp.server.transport_security import TransportSecuritySettings

        known = TransportSecuritySettings(allowed_hosts=["127.0.0.1:*", "localhost:*", "mcp.test:*"])
        uvicorn.run(server.streamable_http_app(transport_security=known), port=int(sys.argv[2]), log_level="warning")
    else:
        server.run("stdio")
        # Its input has ended, and so does it. To take all its packages apart first takes longer than it is given.
        os._exit(0)


if __name__ == "__main__":
    main()
