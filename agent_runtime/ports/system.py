"""Interfaces for lifecycle events and the side-effect gate."""

from __future__ import annotations

from typing import Any, Protocol


class SideEffectGate(Protocol):
    """Holds back side effects while they could not be reported to the host
    (docs/explanation/design.md#a-required-channel-fails-closed)."""

    async def wait_open(self) -> None:
        """Return as soon as a model or tool call may begin: at once unless the gate is closed."""
        ...

    @property
    def closures(self) -> int:
        """How often the gate has closed."""
        ...

    async def has_closed_since(self, closures: int) -> bool:
        """Whether the gate has closed after it had closed so often. May wait a moment, because connections that break
        together are noticed one after the other."""
        ...


class OpenGate:
    """The gate of a runtime without a required channel: always open."""

    closures = 0

    async def wait_open(self) -> None:
        return

    async def has_closed_since(self, closures: int) -> bool:
        return False


class Events(Protocol):
    """Sends lifecycle events to watchers (docs/protocols/chat.md#events)."""

    def emit(self, kind: str, principal: str | None, /, **facts: Any) -> None:
        """Send an event to watchers; a slow one is disconnected. Never waits and never fails. `principal` None: to
        all."""
        ...
