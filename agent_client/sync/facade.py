"""Make methods that wait, of methods that are awaited: an event loop in a thread of its own runs them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import ExitStack
from functools import wraps
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from anyio import CancelScope, Event, get_cancelled_exc_class, move_on_after
from anyio.from_thread import BlockingPortal, start_blocking_portal

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
CANCEL_SECONDS = 5.0
"""How long a call that this thread no longer waits for may take to end."""


def wait_for(portal: BlockingPortal, call: Callable[[], Awaitable[R]]) -> R:
    """Make the call in the portal's thread and wait for it. If this thread is interrupted meanwhile, as by Ctrl-C, the
    call is cancelled and has ended when the interruption goes on."""
    started = _Call(call)
    try:
        return portal.start_task_soon(started.run).result()
    except BaseException:
        # The portal begins tasks in their order: `end` finds the call begun, or it was never handed over.
        portal.call(started.end)
        raise


class _Call(Generic[R]):
    """A call in the portal's thread that can be ended even if the interruption came while it was handed over."""

    def __init__(self, call: Callable[[], Awaitable[R]]) -> None:
        self._call = call
        self._scope: CancelScope | None = None
        self._ended = Event()

    async def run(self) -> R:
        with CancelScope() as self._scope:
            try:
                return await self._call()
            finally:
                self._ended.set()
        raise get_cancelled_exc_class()

    async def end(self) -> None:
        if self._scope is not None:
            self._scope.cancel()
            with move_on_after(CANCEL_SECONDS):
                await self._ended.wait()


class Facade(Generic[A]):
    """An object of the async client, and the thread that makes its calls."""

    def __init__(self, wrapped: A, portal: BlockingPortal | None = None) -> None:
        self.wrapped, self._portal = wrapped, portal

    @property
    def portal(self) -> BlockingPortal:
        """The thread. Raises RuntimeError before `with`."""
        if self._portal is None:
            raise RuntimeError(f"open it first: with {type(self).__name__}(...) as ...")
        return self._portal


class Closable(Protocol):
    async def aclose(self) -> None: ...


C = TypeVar("C", bound=Closable)


class OpenedFacade(Facade[C]):
    """A facade that starts the thread in `with`, and ends it afterwards."""

    _stack: ExitStack

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal())
            stack.callback(self.portal.call, self.wrapped.aclose)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, traceback)
        self._portal = None


def waiting(method: Callable[Concatenate[A, P], Awaitable[R]]) -> Callable[Concatenate[Facade[A], P], R]:
    """Make a method that waits for the async one."""

    @wraps(method)
    def call(self: Facade[A], *args: P.args, **kwargs: P.kwargs) -> R:
        return wait_for(self.portal, lambda: method(self.wrapped, *args, **kwargs))

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
                    item = wait_for(self.portal, items.__anext__)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            wait_for(self.portal, items.aclose)

    return each
