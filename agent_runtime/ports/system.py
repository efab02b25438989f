"""The time, those who watch, and the machine around."""

from __future__ import annotations

from typing import Any, Protocol


class SideEffectGate(Protocol):
    """Holds back side effects while the host could not be told of them
    (docs/explanation/design.md#a-required-channel-fails-closed)."""

    async def wait_open(self) -> None:
        """Returns as soon as a model call or a tool call may begin: at once, unless the gate is closed."""
        ...


class OpenGate:
    """There is no channel that must be up."""

    async def wait_open(self) -> None:
        return


class Events(Protocol):
    """Sends lifecycle events to watchers (docs/protocols/chat.md#events)."""

    def emit(self, kind: str, principal: str | None, /, **facts: Any) -> None:
        """Never waits and never fails: a watcher who is too slow is dropped. Without a principal it concerns all."""
        ...


class SnapshotGuard(Protocol):
    """A host that can put the whole machine back to an earlier point takes a snapshot per user message."""

    async def create_snapshot(self, session_id: str, message_id: str) -> str | None:
        """Called before the message is stored; the snapshot's id is kept with it, and named when it is rewound."""
        ...
