"""One server over all its connections: opened when needed, closed when idle, retried after a failure.

One task owns the connections: it opens and closes everything that belongs to them. Other tasks only make calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
from pydantic import ValidationError

from agent_common.errors import cut
from agent_common.redaction import Redactor
from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...tools import Tool
from ..config.config import LocalServer, ServerConfig
from ..tools.results import result_data
from ..tools.tool_adapter import add_former, build_tools
from ..transport.connection_state import ConnectionState
from ..transport.transports import ConnectorDeps, load_packages
from .timeouts import MAX_PROMPT_RELISTS, Timeouts

if TYPE_CHECKING:
    from mcp_types import CallToolResult

    from ..transport.oauth import AccessToken
    from .session import McpSession

State = Literal["idle", "connecting", "ready", "waiting", "closed"]
MAX_CALLS = 16
"""Most concurrent calls of one server; further ones wait."""
CLOSE_SECONDS = 5.0
LOSS_GRACE = 2.0
"""Seconds that a call whose connection was lost waits for the reason."""
REFUSAL_GRACE = 1.0
"""Seconds for which a session that the server does not know stays open, until the other calls in it are refused too."""
REASON_LIMIT = 500
"""Most characters of the reason for which there is no connection."""
ERROR_LIMIT = 8000
"""Most characters of the error of a call: of a longer one its beginning and its end."""
CHANGES_UNREAD = "its tools have changed and could not be listed again"
MAX_FAULTS = 20
"""Most faults of a server's list of tools that are reported one by one."""

log = logger(__name__)


class ServerConnection:
    """One server: connects on demand, lists its tools and makes calls. Close it at the end."""

    def __init__(
        self,
        server: ServerConfig,
        servers: Collection[str],
        deps: ConnectorDeps,
        starting: asyncio.Semaphore,
        timeouts: Timeouts,
    ) -> None:
        self.server = server
        self.tools: tuple[Tool, ...] = ()
        """The tools that it listed last, also while there is no connection."""
        self.listed = False
        self.state: State = "idle"
        self.reason: str | None = None
        """Why there is no connection although one is needed, else None."""
        self.faults: tuple[str, ...] = ()
        """What is wrong with its list of tools, a line for each."""
        self._servers = servers
        self._deps = deps
        self._starting = starting
        self._timeouts = timeouts
        self._start_timeout = server.start_timeout or timeouts.connect
        self._redactor = Redactor(server.secrets)
        self._now = asyncio.get_running_loop().time
        self._used_at = self._began_at = self._listed_at = self._retry_at = self._now()
        self._failures = self._open_calls = 0
        self._changed = False
        self._probe = True
        """Whether to try the newest protocol first."""
        self._renewed = False
        """Whether the session was renewed at once since the last answer to a call."""
        self._wakeup = asyncio.Event()
        self._attempt_done = asyncio.Event()
        self._connection_over = asyncio.Event()
        """Set while there is no connection; `reason` is known once it is set."""
        self._slots = asyncio.Semaphore(MAX_CALLS)
        self._session: McpSession | None = None
        self._access: AccessToken | None = None
        self._task: asyncio.Task[None] | None = None

    # -- for callers

    def mark_used(self) -> None:
        """Keep the connection open for another idle period."""
        self._used_at = self._now()

    def start_connecting(self) -> None:
        """Start connecting, unless a connection exists, is being made, or has just failed."""
        self.mark_used()
        if self.state == "idle" and self.server.enabled:
            self._set_state("connecting")
            self._task = asyncio.create_task(self._run())

    async def wait_for_attempt(self) -> None:
        """Wait until the first attempt has succeeded or failed, at most `Timeouts.first_wait` from its start."""
        left = self._timeouts.first_wait - (self._now() - self._began_at)
        if self.state == "connecting" and not self._failures and left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._attempt_done.wait()

    async def call(self, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[], None]) -> Any:
        """Call a tool and return its answer as data. Raises ToolFailure."""
        async with self._slots:
            self._open_calls += 1
            try:
                answer = await self._call_known(tool, arguments, on_progress)
                self._renewed = False
                return result_data(answer)
            except ToolFailure as failure:
                raise ToolFailure(cut(self._redactor.redact(failure.message), ERROR_LIMIT), kind=failure.kind) from None
            except Exception as lost:  # noqa: BLE001  any error of the package is treated as a lost connection
                raise await self._lost_failure(lost) from None
            finally:
                self._open_calls -= 1
                self.mark_used()

    async def _call_known(
        self, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[], None]
    ) -> CallToolResult:
        """Call a tool, once more in a new session if the server did not know the first one: it has not run then."""
        session = await self._get_session()
        from .session import SessionUnknown

        try:
            return await session.call(tool, arguments, on_progress)
        except SessionUnknown:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOSS_GRACE):
                    await self._connection_over.wait()
            session = await self._get_session()
        try:
            return await session.call(tool, arguments, on_progress)
        except SessionUnknown as unknown:
            raise self._unavailable(f"{unknown}, nor the one just opened; the call did not run") from None

    async def close(self) -> None:
        """Close the connection, and end the program."""
        self._set_state("closed")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)

    async def _get_session(self) -> McpSession:
        self.start_connecting()
        if self.state == "connecting":
            await self._attempt_done.wait()
        if self._session is None:
            raise self._unavailable()
        return self._session

    async def _lost_failure(self, lost: Exception) -> ToolFailure:
        """Return the failure for a call whose connection was lost, with the reason if it becomes known in time."""
        from .session import ConnectionLost

        if not isinstance(lost, ConnectionLost):
            log.error("mcp call failed", server=self.server.name, error=type(lost).__name__)
        with suppress(TimeoutError):
            async with asyncio.timeout(LOSS_GRACE):
                await self._connection_over.wait()
        return self._unavailable("the connection was lost during the call; its effect is not known")

    def _unavailable(self, what: str = "") -> ToolFailure:
        reasons = "; ".join(one for one in (what, self.reason) if one) or "it is not connected"
        again = f"; the next attempt is in {max(0.0, self._retry_at - self._now()):.0f} s"
        text = f"the MCP server {self.server.name} is unavailable: {reasons}"
        return ToolFailure(text + (again if self.state == "waiting" else ""), kind="unavailable")

    # -- the task that owns the connections

    async def _run(self) -> None:
        """Open one connection after another as long as they are needed."""
        try:
            while await self._attempt():
                self._set_state("connecting")
            self._failures = 0
            self.reason = None
            self._set_state("idle")
        except Exception:
            log.exception("mcp connection task failed", server=self.server.name)
            self.reason = "connecting failed with an internal error"
            self._set_state("idle")
        finally:
            self._attempt_done.set()

    async def _attempt(self) -> bool:
        """Run one connection from its start to its end. Returns whether to open another one."""
        self._began_at = self._now()
        connection_state = ConnectionState(self._wakeup)
        try:
            await self._connect(connection_state)
            return self._open_calls > 0  # a call came while it was being closed
        except Exception as error:  # noqa: BLE001  any error means not connected, and is reported as the reason
            if type(_root_cause(error)).__name__ == "ConnectionDropped" and isinstance(self.server.target, LocalServer):
                self._probe = False
                return True  # retry at once with the request that older servers expect
            self._probe = True
            if connection_state.session_unknown and not self._renewed:
                self._renewed = True
                return True  # the server has restarted; if it does not know the next session either, wait
            advice = await self._deps.advice(self.server)
            if connection_state.answered and self._session is None:
                advice += await self._deps.older_transport(self.server)
            self.reason = "; ".join((self._explain_error(error, connection_state), *advice))
        finally:
            lasted = self._now() - self._began_at if self._session is not None else 0.0
            self._session = None
            self._connection_over.set()
        self._failures = 1 if lasted >= self._timeouts.stable else self._failures + 1
        backoff = self._timeouts.backoff
        pause = backoff[min(self._failures, len(backoff)) - 1]
        self._retry_at = self._now() + pause
        log.warning("mcp server not connected", server=self.server.name, reason=self.reason, retry_seconds=pause)
        self._set_state("waiting")
        await self._timeouts.sleep(pause)
        return self._seconds_until_idle() > 0

    async def _connect(self, connection_state: ConnectionState) -> None:
        """Open a connection and keep it until it is idle. Raises the error that ends it earlier."""
        async with AsyncExitStack() as start:
            await start.enter_async_context(self._starting)
            await load_packages()
            from .session import open_session

            if self._access is None:
                self._access = self._deps.access_token(self.server)
            async with (
                self._deps.open_streams(self.server, connection_state, self._access) as streams,
                open_session(streams, connection_state, self._note_change) as session,
            ):
                with anyio.fail_after(self._start_timeout):
                    await session.handshake(probe=self._probe)
                    await self._list_tools(session)
                await start.aclose()
                self._session = session
                self.reason = None
                self._connection_over.clear()
                self.mark_used()
                self._set_state("ready")
                log.info("mcp server connected", server=self.server.name, tools=len(self.tools))
                await self._maintain(session, connection_state)

    async def _maintain(self, session: McpSession, connection_state: ConnectionState) -> None:
        """List tools again after changes, until the connection is idle. Raises _TransportClosed if it ends earlier."""
        relists = 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.watch, self._note_change, self._timeouts)
            while (left := self._seconds_until_idle()) > 0:
                self._wakeup.clear()
                if connection_state.reason is not None:
                    if connection_state.session_unknown:
                        with anyio.move_on_after(REFUSAL_GRACE):
                            await session.wait_until_quiet()
                    raise _TransportClosed(connection_state.reason)
                self._changed = connection_state.take_gap() or self._changed
                pause = self._timeouts.relist if relists < MAX_PROMPT_RELISTS else self._timeouts.relist_later
                due = self._listed_at + pause - self._now() if self._changed else left
                if self._changed and due <= 0:
                    relists += 1
                    await self._list_again(session)
                    continue
                with anyio.move_on_after(min(left, due)):
                    await self._wakeup.wait()
            self._session = None
            self._set_state("connecting")  # so that new calls wait for the next connection
            tasks.cancel_scope.cancel()

    async def _list_again(self, session: McpSession) -> None:
        """List tools after a change, or again later if the server answers with an error: calls may run meanwhile. One
        that does one thing at a time may answer only after the call that it is busy with. Raises TimeoutError."""
        from mcp import MCPError

        from .session import describe_list_error

        try:
            with anyio.fail_after(self._start_timeout):
                await self._list_tools(session)
            return
        except TimeoutError:
            if not self._open_calls:
                raise
        except (MCPError, ValidationError) as error:
            fault = self._hide_secrets(f"{CHANGES_UNREAD}: {describe_list_error(error)}")
            self.faults = (fault, *(one for one in self.faults if not one.startswith(CHANGES_UNREAD)))
            log.warning("mcp tools not listed again", server=self.server.name, fault=fault)
        self._changed = True
        self._listed_at = self._now()

    async def _list_tools(self, session: McpSession) -> None:
        """Replace the tools with the server's current list. Turns that have started keep the tools that they had.

        Where the list breaks off, the tools that were there before stay, and it is requested again later."""
        self._changed = False
        listing = await session.tools()
        about = self._redactor.redact(session.instructions)
        tools, faults = await asyncio.to_thread(
            build_tools, self.server, listing.tools, self._servers, self.call, about
        )
        if listing.broken:
            tools = await asyncio.to_thread(add_former, tools, self.tools)
            self._changed = True
        self.tools = tools
        found = [self._hide_secrets(line) for line in (*listing.faults, *faults)]
        if not self.tools:
            found.append("it lists no tools" if not found else "none of the tools that it lists can be used")
        more = max(0, len(found) - MAX_FAULTS) + listing.more_faults
        self.faults = (*found[:MAX_FAULTS], *([f"and {more} more"] if more else []))
        if self.faults:
            log.warning("mcp tools left out", server=self.server.name, faults=self.faults)
        self.listed = True
        self._listed_at = self._now()

    def _note_change(self) -> None:
        self._changed = True
        self._wakeup.set()

    def _seconds_until_idle(self) -> float:
        """Return the seconds until the connection counts as idle."""
        idle = self._timeouts.idle
        return idle if self._open_calls else self._used_at + idle - self._now()

    def _set_state(self, state: State) -> None:
        if self.state != "closed":
            self.state = state
        if state == "connecting":
            self._attempt_done.clear()
        else:
            self._attempt_done.set()

    def _explain_error(self, error: Exception, connection_state: ConnectionState) -> str:
        leaf = _root_cause(error)
        if type(leaf).__name__ == "TokenRefused":
            return str(leaf)
        if connection_state.reason is not None:
            text = connection_state.reason
        elif isinstance(leaf, TimeoutError):
            how = f"the operator can raise that by start_timeout_ms of the server {self.server.name} in mcp.json"
            text = f"it did not answer within {self._start_timeout:g} s; {how}"
        elif isinstance(leaf, ValidationError):
            first = leaf.errors(include_input=False, include_url=False)[0]
            text = f"it breaks the protocol: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        else:
            text = str(leaf) or type(leaf).__name__
        return self._hide_secrets(text)

    def _hide_secrets(self, text: str) -> str:
        """Replace the operator's secrets in a text, and shorten it to the limit for reasons."""
        text = self._redactor.redact(text)
        return " ".join(text.split())[:REASON_LIMIT] if len(text) > REASON_LIMIT else text


class _TransportClosed(Exception):
    """The transport has reported the end of the connection."""


def _root_cause(error: BaseException) -> BaseException:
    """Return the first error inside the exception groups of task groups."""
    while isinstance(error, BaseExceptionGroup):
        inner: Sequence[BaseException] = cast("BaseExceptionGroup[BaseException]", error).exceptions
        error = next((one for one in inner if not isinstance(one, asyncio.CancelledError)), inner[0])
    return error
