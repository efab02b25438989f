"""One server over all its connections: opened when it is needed, closed when it is not, tried again after a failure.

A connection lives in a task of its own, which enters and leaves all that belongs to it. Others only call through it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Literal, cast

import anyio
from pydantic import ValidationError

from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...tools import Tool
from ..config.config import LocalServer, ServerConfig
from ..tools.results import data
from ..tools.tool_adapter import declare
from ..transport.connection_state import ConnectionState
from ..transport.transports import ConnectorDeps, load
from .timeouts import MOST_PROMPT, Timeouts

if TYPE_CHECKING:
    from ..transport.oauth import AccessToken
    from .session import McpSession

State = Literal["idle", "connecting", "ready", "waiting", "closed"]
MOST_CALLS = 16
"""Calls of one server at the same time; further ones wait."""
CLOSE_SECONDS = 5.0
AFTERMATH = 2.0
"""Seconds that a call which lost its connection waits to learn why."""
REASON_LIMIT = 500

log = logger(__name__)


class ServerConnection:
    """`touch` it, `wake` it, `call` through it; `close` it in the end."""

    def __init__(
        self,
        server: ServerConfig,
        servers: Collection[str],
        ground: ConnectorDeps,
        starting: asyncio.Semaphore,
        patience: Timeouts,
    ) -> None:
        self.server = server
        self.tools: tuple[Tool, ...] = ()
        """As it listed them last, also while there is no connection."""
        self.listed = False
        self.state: State = "idle"
        self.reason: str | None = None
        """Why there is no connection, when there should be one."""
        self._servers, self._ground, self._starting, self._patience = servers, ground, starting, patience
        self._now = asyncio.get_running_loop().time
        self._used = self._began = self._listed_at = self._retry_at = self._now()
        self._failures = self._open_calls = 0
        self._changed = False
        self._probing = True
        """The newest protocol is tried first."""
        self._stir, self._settled = asyncio.Event(), asyncio.Event()
        self._over = asyncio.Event()
        """The connection that a call has lost is over, and it is known why."""
        self._slots = asyncio.Semaphore(MOST_CALLS)
        self._session: McpSession | None = None
        self._access: AccessToken | None = None
        self._task: asyncio.Task[None] | None = None

    # -- for those who want something of it

    def touch(self) -> None:
        """Somebody may need it: its connection stays open for a while."""
        self._used = self._now()

    def wake(self) -> None:
        """Begins to connect, unless that is going on or has just failed."""
        self.touch()
        if self.state == "idle" and self.server.enabled:
            self._become("connecting")
            self._task = asyncio.create_task(self._live())

    async def settled(self) -> None:
        """Returns once its first attempt has come to something, or has had its time."""
        left = self._patience.wait - (self._now() - self._began)
        if self.state == "connecting" and not self._failures and left > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._settled.wait()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Any:
        """What a tool answers, as data. Raises ToolFailure."""
        async with self._slots:
            self._open_calls += 1
            try:
                session = await self._connected()
                return data(await session.call(tool, arguments))
            except ToolFailure as failure:
                raise ToolFailure(self._hide(failure.message), kind=failure.kind) from None
            except Exception as lost:  # noqa: BLE001  whatever breaks in the package is a lost connection
                raise await self._lost(lost) from None
            finally:
                self._open_calls -= 1
                self.touch()

    async def close(self) -> None:
        """Ends its connection, and the program with it."""
        self._become("closed")
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)

    async def _connected(self) -> McpSession:
        self.wake()
        if self.state == "connecting":
            await self._settled.wait()
        if self._session is None:
            raise self._unavailable()
        return self._session

    async def _lost(self, lost: Exception) -> ToolFailure:
        """What a call is told whose connection is gone."""
        from .session import ConnectionLost

        if not isinstance(lost, ConnectionLost):
            log.error("mcp call failed", server=self.server.name, error=type(lost).__name__)
        with suppress(TimeoutError):
            async with asyncio.timeout(AFTERMATH):
                await self._over.wait()
        return self._unavailable("the connection was lost under the call; what it has done is not known")

    def _unavailable(self, what: str = "") -> ToolFailure:
        reasons = "; ".join(one for one in (what, self.reason) if one) or "it is not connected"
        again = f"; it is tried again in {max(0.0, self._retry_at - self._now()):.0f} s"
        text = f"the MCP server {self.server.name} is unavailable: {reasons}"
        return ToolFailure(text + (again if self.state == "waiting" else ""), kind="unavailable")

    # -- the task that owns the connections

    async def _live(self) -> None:
        """Connection after connection, while somebody needs them."""
        try:
            while await self._attempt():
                self._become("connecting")
            self._failures, self.reason = 0, None
            self._become("idle")
        except Exception:
            log.exception("an mcp connection broke its owner", server=self.server.name)
            self.reason = "it cannot be connected to"
            self._become("idle")
        finally:
            self._settled.set()

    async def _attempt(self) -> bool:
        """One connection from its beginning to its end; whether another one is to follow."""
        self._began = self._now()
        ends = ConnectionState(self._stir)
        try:
            await self._connect(ends)
            return self._open_calls > 0  # somebody came while it was being closed
        except Exception as error:  # noqa: BLE001  whatever it is, the server is not connected and the reason is told
            if type(_leaf(error)).__name__ == "Dropped" and isinstance(self.server.where, LocalServer):
                self._probing = False
                return True  # at once, with the request that older servers expect
            self._probing = True
            self.reason = "; ".join((self._explain(error, ends), *await self._ground.advice(self.server)))
        finally:
            lasted = self._now() - self._began if self._session is not None else 0.0
            self._session = None
            self._over.set()
        self._failures = 1 if lasted >= self._patience.sound else self._failures + 1
        backoff = self._patience.backoff
        pause = backoff[min(self._failures, len(backoff)) - 1]
        self._retry_at = self._now() + pause
        log.warning("mcp server not connected", server=self.server.name, reason=self.reason, retry_seconds=pause)
        self._become("waiting")
        await self._patience.sleep(pause)
        return self._needed_for() > 0

    async def _connect(self, ends: ConnectionState) -> None:
        """Returns when nobody has needed the connection for long. Raises whatever ends it before."""
        async with AsyncExitStack() as start:
            await start.enter_async_context(self._starting)
            await load()
            from .session import open_session

            if self._access is None:
                self._access = self._ground.access(self.server)
            async with (
                self._ground.streams(self.server, ends, self._access) as streams,
                open_session(streams, self._note_change) as session,
            ):
                with anyio.fail_after(self._patience.connect):
                    await session.handshake(probe=self._probing)
                    await self._list(session)
                await start.aclose()
                self._session, self.reason = session, None
                self._over.clear()
                self.touch()
                self._become("ready")
                log.info("mcp server connected", server=self.server.name, tools=len(self.tools))
                await self._keep(session, ends)

    async def _keep(self, session: McpSession, ends: ConnectionState) -> None:
        """Until nobody has needed it for long. Raises when the transport says that it is over."""
        pauses, relists = (self._patience.relist_later, self._patience.relist), 0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.watch, self._note_change)
            while (left := self._needed_for()) > 0:
                self._stir.clear()
                if ends.reason is not None:
                    raise _Lost(ends.reason)
                due = self._listed_at + pauses[relists < MOST_PROMPT] - self._now() if self._changed else left
                if self._changed and due <= 0:
                    relists += 1
                    with anyio.fail_after(self._patience.connect):
                        await self._list(session)
                    continue
                with anyio.move_on_after(min(left, due)):
                    await self._stir.wait()
            self._session = None
            self._become("connecting")  # so that who comes now waits for the next one
            tasks.cancel_scope.cancel()

    async def _list(self, session: McpSession) -> None:
        """The tools as they are now; turns that have begun keep those that they began with."""
        self._changed = False
        listed = await session.tools()
        self.tools = await asyncio.to_thread(declare, self.server, listed, self._servers, self.call)
        self.listed = True
        self._listed_at = self._now()

    def _note_change(self) -> None:
        self._changed = True
        self._stir.set()

    def _needed_for(self) -> float:
        """Seconds until the connection counts as idle."""
        idle = self._patience.idle
        return idle if self._open_calls else self._used + idle - self._now()

    def _become(self, state: State) -> None:
        if self.state != "closed":
            self.state = state
        if state == "connecting":
            self._settled.clear()
        else:
            self._settled.set()

    def _explain(self, error: Exception, ends: ConnectionState) -> str:
        leaf = _leaf(error)
        if type(leaf).__name__ == "Refused":
            return str(leaf)
        if ends.reason is not None:
            text = ends.reason
        elif isinstance(leaf, TimeoutError):
            text = f"it did not answer within {self._patience.connect:g} s"
        elif isinstance(leaf, ValidationError):
            first = leaf.errors(include_input=False, include_url=False)[0]
            text = f"it does not speak as agreed: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        else:
            text = str(leaf) or type(leaf).__name__
        return self._hide(text)

    def _hide(self, text: str) -> str:
        """Without what the operator keeps secret."""
        for secret in self.server.secrets:
            text = text.replace(secret, "[hidden]")
        return " ".join(text.split())[:REASON_LIMIT] if len(text) > REASON_LIMIT else text


class _Lost(Exception):
    """The transport says that the connection is over."""


def _leaf(error: BaseException) -> BaseException:
    """What went wrong first, inside the groups that task groups make of it."""
    while isinstance(error, BaseExceptionGroup):
        inner: Sequence[BaseException] = cast("BaseExceptionGroup[BaseException]", error).exceptions
        error = next((one for one in inner if not isinstance(one, asyncio.CancelledError)), inner[0])
    return error
