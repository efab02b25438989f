"""One session with a server: handshake, listing of tools, and calls. Requests from the server are refused.

Imported only when a server is used, because it needs packages that load slowly.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter, ValidationError

from ... import __version__
from ...errors import ToolFailure, ToolFailureKind
from ..tools.listing import LeftOut
from ..tools.schemas import plain_text
from ..tools.tool_adapter import MAX_TOOLS
from ..transport.connection_state import ConnectionState, Streams
from ..transport.refusals import REFUSED_CODE, UNKNOWN_SESSION, UNKNOWN_SESSION_CODE, is_session_error
from .dispatcher import MendingDispatcher
from .timeouts import Timeouts

MAX_PAGES = 250
MAX_ENTRIES = 10 * MAX_TOOLS
"""Most entries of a server's list, usable or not, after which no further page is requested."""
MAX_LISTED_BYTES = 8 * 1024 * 1024
"""Size of a listing in bytes after which no further page is requested."""
_ANSWER_ADAPTER: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
PROBE_SECONDS = 3.0
"""Seconds for the answer to a request of the newest protocol, which some older servers never answer."""
_NO_HANDSHAKE = (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION)
"""Error codes with which a server of the newest protocol answers `initialize`."""

_NO_SUBSCRIPTION = (types.METHOD_NOT_FOUND, types.INVALID_REQUEST, types.INVALID_PARAMS, REFUSED_CODE)
"""Error codes of a server that has no subscriptions, or none for us."""

_KINDS: Mapping[int, ToolFailureKind] = {
    types.INVALID_PARAMS: "invalid",
    types.CONNECTION_CLOSED: "unavailable",
    REFUSED_CODE: "unavailable",
}
CLOSED_MESSAGE = "Connection closed"
"""The package's message for a lost connection, as opposed to a failed request."""


class ConnectionLost(Exception):
    """The connection was lost during a call."""


class SessionUnknown(Exception):
    """The server does not know the session, so that it has not run the call."""


class ConnectionDropped(Exception):
    """The server closed the connection on the first request of the newest protocol."""


@dataclass(frozen=True, slots=True)
class ToolListing:
    """The tools of a server, and a line for each thing that is wrong with its list."""

    tools: list[types.Tool]
    faults: list[str]
    more_faults: int = 0
    """Faults that have no line."""
    broken: bool = False
    """Whether a later page could not be had, so that tools are missing."""


class McpSession:
    """A session with one server. Any task may call its methods during the block of `open_session`."""

    def __init__(self, client: Any, dispatcher: MendingDispatcher, connection_state: ConnectionState) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._connection_state = connection_state
        self._calls = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def handshake(self, *, probe: bool = True) -> None:
        """Agree on a protocol: try the newest, which has no handshake, then `initialize`. Without `probe` try
        `initialize` first. Raises ConnectionDropped."""
        from mcp import MCPError

        if probe and await self._discover():
            return
        try:
            await self._client.initialize()
        except MCPError as refusal:
            if refusal.code not in _NO_HANDSHAKE:
                raise
            await self._client.discover()  # a slow server may have missed the deadline of the probe

    async def _discover(self) -> bool:
        """Return whether the server speaks the newest protocol."""
        from mcp import MCPError

        try:
            with anyio.fail_after(PROBE_SECONDS):
                await self._client.discover()
        except MCPError as refusal:
            if refusal.code == REFUSED_CODE:
                raise
            if _is_closed(refusal):
                raise ConnectionDropped("it closed the connection") from None
            return False
        except (TimeoutError, RuntimeError, ValidationError):  # no answer, no common version, or an invalid result
            return False
        return True

    @property
    def instructions(self) -> str:
        """What the server says about its use, or an empty string."""
        return self._client.instructions or ""

    async def tools(self) -> ToolListing:
        """Return the tools that the server lists, up to the limits, and what is missing of them. Raises MCPError and
        ValidationError if it has no list; of one that breaks off, what came before is returned."""
        from mcp import MCPError

        left_out = self._dispatcher.left_out = LeftOut()
        found: list[types.Tool] = []
        cursor: str | None = None
        seen: set[str] = set()
        size = 0
        broken = ""
        for _ in range(MAX_PAGES):
            try:
                page = await self._list_page(cursor)
            except (MCPError, ValidationError) as error:
                if cursor is None or (isinstance(error, MCPError) and _is_closed(error)):
                    raise
                broken = f"the rest of its list is left out: {describe_list_error(error)}"
                cursor = None
                break
            found += page.tools
            size += len(page.model_dump_json())
            cursor = None if page.next_cursor in seen else page.next_cursor  # a server may go round in circles
            entries = len(found) + left_out.count
            if cursor is None or len(found) >= MAX_TOOLS or entries >= MAX_ENTRIES or size >= MAX_LISTED_BYTES:
                break
            seen.add(cursor)
        faults: list[str] = [*([broken] if broken else []), *left_out.lines]
        if cursor is not None:
            faults.append(f"the rest of its list is left out: at most {MAX_TOOLS} tools on {MAX_PAGES} pages are read")
        elif len(found) > MAX_TOOLS:
            faults.append(f"{len(found) - MAX_TOOLS} of its tools are left out: at most {MAX_TOOLS} are read")
        return ToolListing(found[:MAX_TOOLS], faults, left_out.count - len(left_out.lines), bool(broken))

    async def _list_page(self, cursor: str | None) -> types.ListToolsResult:
        """Return one page. A server that does not say that it has tools is asked as well: many forget to say it."""
        from mcp import MCPError

        try:
            return await self._request_page(types.PaginatedRequestParams(cursor=cursor))
        except MCPError as refusal:
            capabilities = self._client.server_capabilities
            if refusal.code != types.METHOD_NOT_FOUND or (capabilities is not None and capabilities.tools is not None):
                raise
            return types.ListToolsResult(tools=[])

    async def _request_page(self, params: types.PaginatedRequestParams) -> types.ListToolsResult:
        if self._client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return await self._client.list_tools(params=params)  # the client remembers which arguments become headers
        return await self._client.send_request(types.ListToolsRequest(params=params), types.ListToolsResult)

    async def watch(self, on_change: Callable[[], object], timeouts: Timeouts) -> None:
        """Subscribe to changes of the tools on a server of the newest protocol, again whenever the subscription is
        lost; what has changed meanwhile is not known. Older servers report changes unasked."""
        if self._client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        losses = 0
        now = asyncio.get_running_loop().time
        on_begin: Callable[[], object] = bool  # the tools have just been listed
        while True:
            began = now()
            if not await self._hear_changes(on_begin, on_change):
                return
            losses = 0 if now() - began >= timeouts.stable else losses + 1
            on_begin = on_change
            await timeouts.sleep(timeouts.backoff[min(max(losses, 1), len(timeouts.backoff)) - 1])

    async def _hear_changes(self, on_begin: Callable[[], object], on_change: Callable[[], object]) -> bool:
        """Hear of changes until the subscription ends. Return whether another one may be had."""
        from mcp import MCPError
        from mcp.client.subscriptions import SubscriptionLost, listen

        try:
            async with listen(self._client, tools_list_changed=True) as changes:
                if not changes.honored.tools_list_changed:
                    return False
                on_begin()
                async for _ in changes:
                    on_change()
        except MCPError as refusal:
            return refusal.code not in _NO_SUBSCRIPTION and not _is_closed(refusal)
        except SubscriptionLost:
            pass
        return True

    async def call(
        self, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[], None]
    ) -> types.CallToolResult:
        """Call a tool; `on_progress` is called whenever the server reports that it makes progress.

        Raises ToolFailure, ConnectionLost if the connection was lost during the call, and SessionUnknown.
        """
        self._calls += 1
        self._quiet.clear()
        try:
            return await self._call(tool, arguments, on_progress)
        finally:
            self._calls -= 1
            if not self._calls:
                self._quiet.set()

    async def wait_until_quiet(self) -> None:
        """Wait until no call is open. Each call over HTTP has an answer of its own, also in a session that is over."""
        await self._quiet.wait()

    async def _call(
        self, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[], None]
    ) -> types.CallToolResult:
        from mcp import MCPError

        async def progress(*_: object) -> None:
            on_progress()
            await asyncio.sleep(0)

        params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
        try:
            # Not `call_tool`, which would validate the answer against a schema that the server supplies.
            answer = await self._client.send_request(
                types.CallToolRequest(params=params), _ANSWER_ADAPTER, progress_callback=progress
            )
        except MCPError as error:
            if _is_closed(error):
                raise ConnectionLost from None
            if error.code == UNKNOWN_SESSION_CODE:
                raise SessionUnknown(error.message) from None
            if self._connection_state.session_shown and is_session_error(error.code, error.message):
                self._connection_state.end_session(UNKNOWN_SESSION)
                raise SessionUnknown(UNKNOWN_SESSION) from None
            kind = _KINDS.get(error.code, "backend")
            raise ToolFailure(_describe_error(error), kind=kind) from None
        except ValidationError:
            raise ToolFailure("its answer is not a valid tool result") from None
        if isinstance(answer, types.InputRequiredResult):
            raise ToolFailure("it asks for interactive input, which is not supported", kind="unavailable")
        return answer


def _describe_error(error: Any) -> str:
    """Return the message of an error, and the details that some servers send beside it."""
    message = error.message or f"error {error.code}"
    details = error.data
    if not details:
        return message
    return f"{message}\n{details if isinstance(details, str) else json.dumps(details, ensure_ascii=False)}"


def describe_list_error(error: Exception) -> str:
    """Return on one line why a server's tools could not be listed."""
    return "it is no list of tools" if isinstance(error, ValidationError) else plain_text(str(error))


def _is_closed(error: Any) -> bool:
    return error.code == types.CONNECTION_CLOSED and error.message == CLOSED_MESSAGE


@asynccontextmanager
async def open_session(
    streams: Streams, connection_state: ConnectionState, on_change: Callable[[], object]
) -> AsyncGenerator[McpSession]:
    """Open a session over the streams, without its handshake. `on_change` is called when the server reports new
    tools, and `connection_state` receives the end of a session that the server does not know any more."""
    from mcp import ClientSession

    async def hear(message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            on_change()
        await asyncio.sleep(0)

    about = types.Implementation(name="agent-runtime", version=__version__)
    dispatcher = MendingDispatcher(*streams)
    async with ClientSession(dispatcher=dispatcher, message_handler=hear, client_info=about) as client:
        yield McpSession(client, dispatcher, connection_state)
