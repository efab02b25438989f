"""Turns and tasks without `await`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from types import TracebackType
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from ..chat import ChatEvent, ChatStream
from ..tasks import WAIT_SECONDS, T, Task
from .facade import Facade, wait_for, waiting

P = ParamSpec("P")
A = TypeVar("A")


class SyncChatStream(Facade[ChatStream]):
    """The events of one turn, each exactly once; see `ChatStream`."""

    reply = waiting(ChatStream.reply)
    close = waiting(ChatStream.aclose)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChatEvent:
        try:
            return wait_for(self.loop, self.wrapped.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def stream_of(method: Callable[Concatenate[A, P], ChatStream]) -> Callable[Concatenate[Facade[A], P], SyncChatStream]:
    """Make a method that returns a stream for this thread."""

    @wraps(method)
    def call(self: Facade[A], *args: P.args, **kwargs: P.kwargs) -> SyncChatStream:
        return SyncChatStream(method(self.wrapped, *args, **kwargs), self.loop)

    return call


class SyncTask(Facade[Task[T]], Generic[T]):
    """A task that the server has taken; see `Task`."""

    outcome = waiting(Task[T].outcome)
    events = stream_of(Task[T].events)
    record = waiting(Task[T].record)
    cancel = waiting(Task[T].cancel)

    @property
    def id(self) -> str:
        return self.wrapped.id

    def result(self, wait: float = WAIT_SECONDS) -> T:
        """Wait for the answer; see `Task.result`."""
        return wait_for(self.loop, lambda: self.wrapped.result(wait))


def task_of(
    method: Callable[Concatenate[A, P], Awaitable[Task[T]]],
) -> Callable[Concatenate[Facade[A], P], SyncTask[T]]:
    """Make a method that returns a task for this thread."""
    submit = waiting(method)

    @wraps(method)
    def call(self: Facade[A], *args: P.args, **kwargs: P.kwargs) -> SyncTask[T]:
        return SyncTask(submit(self, *args, **kwargs), self.loop)

    return call
