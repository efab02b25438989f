"""Links: what carries frames between a client and a hub."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from ..protocol.hub import Frame, HubUnavailable


class LinkClient(Protocol):
    """The client's end of a link. A link that broke may be opened again."""

    async def open(self) -> None:
        """Connect. Raises AuthError, or HubUnavailable if another attempt may succeed."""
        ...

    async def send_frame(self, frame: Frame) -> None:
        """Send a frame. Raises HubUnavailable if the link is broken."""
        ...

    def frames(self) -> AsyncIterator[Frame]:
        """The frames of the hub, until the link breaks or is closed."""
        ...

    async def close(self) -> None:
        """End the link."""
        ...


class Link(Protocol):
    """Makes the client's ends of links to one hub."""

    def client(self) -> LinkClient: ...


class LocalLinkEndpoint(Protocol):
    """The hub's end of a local link."""

    def receive(self, frame: Frame) -> None:
        """Take a frame of the client. Never waits."""
        ...

    async def close(self) -> None:
        """The client has ended the link."""
        ...


class LocalHub(Protocol):
    """A hub in this process, such as `agent_host.hub.Hub`."""

    def connect(self, send: Callable[[Frame], None]) -> LocalLinkEndpoint:
        """Take a link; `send` gets the frames for its client."""
        ...


class LocalLink:
    """A link within one process. Frames are passed on as they are."""

    def __init__(self, hub: LocalHub) -> None:
        self._hub = hub

    def client(self) -> LocalLinkClient:
        return LocalLinkClient(self._hub)


class LocalLinkClient:
    """The client's end. The hub's end is made when it is opened."""

    def __init__(self, hub: LocalHub) -> None:
        self._hub = hub
        # What the hub sends is bounded by what is asked, and by the windows of agents.
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._endpoint: LocalLinkEndpoint | None = None

    async def open(self) -> None:
        self._endpoint = self._hub.connect(self._frames.put_nowait)

    async def send_frame(self, frame: Frame) -> None:
        if self._endpoint is None:
            raise HubUnavailable("the link is closed")
        self._endpoint.receive(frame)

    async def frames(self) -> AsyncIterator[Frame]:
        while (frame := await self._frames.get()) is not None:
            yield frame

    async def close(self) -> None:
        endpoint = self._endpoint
        self._endpoint = None
        if endpoint is not None:
            await endpoint.close()
            self._frames.put_nowait(None)
