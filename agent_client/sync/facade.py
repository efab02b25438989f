"""Make methods that wait, of methods that are awaited: an event loop in a thread of its own runs them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import ExitStack
from functools import wraps
from threading import Lock
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from anyio.from_thread import start_blocking_portal

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
CANCEL_SECONDS = 5.0
"""How long a call that this thread no longer waits for may take to end."""
_LISTEN_SECONDS = 0.5
"""After which a thread that waits looks for an interruption: one that comes just before it waits does not wake it."""


def wait_for(loop: asyncio.AbstractEventLoop, call: Callable[[], Awaitable[R]]) -> R:
    """Make the call in the loop's thread and wait for it. If this thread is interrupted meanwhile, as by Ctrl-C, the
    call is cancelled and has ended when the interruption goes on."""
    started = _Call(call)
    try:
        loop.call_soon_threadsafe(started.begin)
        while not started.ended.acquire(timeout=_LISTEN_SECONDS):
            if loop.is_closed():
                raise RuntimeError("it was closed before the call had begun")
    except BaseException:
        # The loop calls in this order: `cancel` finds the call begun, or it was never handed over.
        loop.call_soon_threadsafe(started.cancel)
        started.ended.acquire(timeout=CANCEL_SECONDS)
        raise
    return started.result()


class _Call(Generic[R]):
    """A call in the loop's thread. The thread that waits for it uses nothing but a bare lock: an interruption amid the
    steps of a `Future` is lost, leaves it locked, or becomes a RuntimeError."""

    def __init__(self, call: Callable[[], Awaitable[R]]) -> None:
        self._call = call
        self._has_begun = False
        self.ended = Lock()
        """Released when the call has ended."""
        self.ended.acquire()

    def begin(self) -> None:
        self._has_begun = True
        self._task = asyncio.create_task(self._run())
        self._task.add_done_callback(self._tell)

    def cancel(self) -> None:
        if self._has_begun and not self._task.done():
            self._task.cancel()
        else:
            self._tell()

    def result(self) -> R:
        """Return the result of a call that has ended, or raise its error."""
        return self._task.result()

    async def _run(self) -> R:
        return await self._call()

    def _tell(self, task: asyncio.Task[R] | None = None) -> None:
        if task is not None and not task.cancelled():
            task.exception()  # it counts as seen: a thread that was interrupted does not ask for it
        if self.ended.locked():
            self.ended.release()


class Facade(Generic[A]):
    """An object of the async client, and the event loop that makes its calls."""

    def __init__(self, wrapped: A, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.wrapped = wrapped
        self._loop = loop

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that makes its calls. Raises RuntimeError before `with`."""
        if self._loop is None:
            raise RuntimeError(f"open it first: with {type(self).__name__}(...) as ...")
        return self._loop


class Closable(Protocol):
    async def aclose(self) -> None: ...


C = TypeVar("C", bound=Closable)


class OpenedFacade(Facade[C]):
    """A facade that starts the thread in `with`, and ends it afterwards."""

    _stack: ExitStack

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal())
            self._loop = portal.call(asyncio.get_running_loop)
            stack.callback(portal.call, self.wrapped.aclose)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, traceback)
        self._loop = None


def waiting(method: Callable[Concatenate[A, P], Awaitable[R]]) -> Callable[Concatenate[Facade[A], P], R]:
    """Make a method that waits for the async one."""

    @wraps(method)
    def call(self: Facade[A], *args: P.args, **kwargs: P.kwargs) -> R:
        return wait_for(self.loop, lambda: method(self.wrapped, *args, **kwargs))

    return call


def iterating(
    method: Callable[Concatenate[A, P], AsyncGenerator[R]],
) -> Callable[Concatenate[Facade[A], P], Generator[R]]:
    """Make a generator of the async one."""

    @wraps(method)
    def each(self: Facade[A], *args: P.args, **kwargs: P.kwargs) -> Generator[R]:
        items = method(self.wrapped, *args, **kwargs)
        try:
            while True:
                try:
                    item = wait_for(self.loop, items.__anext__)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            wait_for(self.loop, items.aclose)

    return each
