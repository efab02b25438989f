"""A link over a WebSocket, to the hub of a host: over TCP, a unix socket or vsock."""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from ..json_reader import JsonLimits, JsonRefused, read_json, run_by_size
from ..net import Unix, Vsock, open_socket, parse_http_url
from ..protocol.hub import (
    MAX_FRAME,
    AuthError,
    Frame,
    HubUnavailable,
    NetworkError,
    ProtocolError,
    encode_frame,
    frame_of,
)
from ..telemetry import logger

log = logger(__name__)
_LIMITS = JsonLimits(max_bytes=MAX_FRAME, max_depth=110, max_values=400_000, refuse_ambiguous=False)
"""A page of a log may have as many values as its bytes allow. Envelopes lie deeper in it than in their frames."""
_OPEN_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
_MOST_REASON = 4096


@dataclass(frozen=True, slots=True)
class HubAddress:
    """Where a hub is reached."""

    url: str
    """As the caller has written it."""
    target: str
    """What is asked for in the handshake."""
    endpoint: Unix | Vsock | None
    """The socket to connect, if it is no TCP port."""

    @classmethod
    def parse(cls, url: str) -> Self:
        """Raises ValueError."""
        if not url.startswith(("ws://", "wss://", "ws+unix://", "ws+vsock://")):
            raise ValueError(f"url: {url!r} must begin with ws:// or wss://, as in ws://127.0.0.1:8420/hub")
        base = parse_http_url(f"http{url.removeprefix('ws')}")
        if not isinstance(base.endpoint, Unix | Vsock):
            return cls(url, url, None)
        return cls(url, f"ws://{base.host}{base.path}", base.endpoint)

    async def connect(self, token: str | None, *, heartbeat: float | None, **options: Any) -> ClientConnection:
        """Open a WebSocket. `heartbeat`: seconds between pings; None: there are none. `options`: further ones of
        `websockets.connect`. Raises AuthError or HubUnavailable."""
        try:
            if self.endpoint is not None:
                options = {**options, "unix": True, "sock": await open_socket(self.endpoint, _OPEN_SECONDS)}
            return await connect(
                self.target,
                additional_headers={"authorization": f"Bearer {token}"} if token else {},
                compression=None,
                max_size=MAX_FRAME,
                open_timeout=_OPEN_SECONDS,
                close_timeout=_CLOSE_SECONDS,
                ping_interval=heartbeat,
                ping_timeout=heartbeat,
                **options,
            )
        except InvalidStatus as error:
            raise _refusal(self.url, error) from error
        except (OSError, TimeoutError, WebSocketException) as error:
            raise HubUnavailable(f"{self.url} cannot be reached: {str(error) or type(error).__name__}") from error


class WebSocketLink:
    """Links to a hub at a URL such as `ws://127.0.0.1:8420/hub`, `ws+unix://%2Frun%2Fmesh.sock/hub` or
    `ws+vsock://2:8420/hub`, or to any of several that share a database."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        token: str | None = None,
        heartbeat: float = 15.0,
        tls: ssl.SSLContext | None = None,
        direct: bool = False,
    ) -> None:
        """`url`: of one hub, or of several; when one cannot be reached, the next one is tried. `token`: of an agent or
        of the operator. `heartbeat`: seconds between pings; a link on which none is answered within as many has broken.
        `tls`: for wss, if not the system's. `direct`: use no proxy, also if the environment names
        one.

        Raises ValueError for another kind of URL."""
        urls = (url,) if isinstance(url, str) else tuple(url)
        self._addresses = [HubAddress.parse(one) for one in urls or ("",)]
        self._token = token
        self._heartbeat = heartbeat
        self._options: dict[str, Any] = {"ssl": tls, **({"proxy": None} if direct else {})}

    def client(self) -> WebSocketLinkClient:
        return WebSocketLinkClient(self._addresses, self._token, heartbeat=self._heartbeat, options=self._options)


class WebSocketLinkClient:
    """The client's end of one link. Each message is a frame."""

    def __init__(
        self, addresses: Sequence[HubAddress], token: str | None, *, heartbeat: float, options: dict[str, Any]
    ) -> None:
        self._addresses = deque(addresses)
        self._heartbeat = heartbeat
        self._options = options
        self._token = token
        self._socket: ClientConnection | None = None

    async def open(self) -> None:
        await self.close()
        for attempts_left in range(len(self._addresses) - 1, -1, -1):
            try:
                self._socket = await self._addresses[0].connect(self._token, heartbeat=self._heartbeat, **self._options)
                return
            except HubUnavailable:
                self._addresses.rotate(-1)
                if not attempts_left:
                    raise

    @property
    def _url(self) -> str:
        return self._addresses[0].url

    async def send_frame(self, frame: Frame) -> None:
        data = encode_frame(frame)
        if len(data) > MAX_FRAME:
            raise ProtocolError(f"a frame may have {MAX_FRAME} bytes, and this one has {len(data)}")
        if self._socket is None:
            raise HubUnavailable("the link is closed")
        try:
            await self._socket.send(data.decode())
        except ConnectionClosed as error:
            raise HubUnavailable(f"the link to {self._url} is broken") from error

    async def frames(self) -> AsyncIterator[Frame]:
        socket = self._socket
        while socket is not None:
            try:
                message = await socket.recv(decode=False)
            except ConnectionClosed:
                return
            try:
                frame = await run_by_size(len(message), partial(_read, message))
            except ProtocolError as error:  # of a newer hub
                log.warning("hub_frame_unreadable", why=error.message)
                continue
            yield frame

    async def close(self) -> None:
        socket = self._socket
        self._socket = None
        if socket is not None:
            await socket.close()


def _read(data: bytes) -> Frame:
    try:
        return frame_of(read_json(data, _LIMITS))
    except JsonRefused as refusal:
        raise ProtocolError(f"not a frame: {refusal}") from None


def _refusal(url: str, error: InvalidStatus) -> NetworkError:
    """What an answer other than a link says. A server without a hub at that path refuses with 403 and no word."""
    status = error.response.status_code
    body = error.response.body or b""
    reason = body[:_MOST_REASON].decode(errors="replace") or "there is no hub at this path"
    message = f"{url} answers {status}: {reason}"
    return AuthError(message) if status in (401, 403) and body else HubUnavailable(message)
