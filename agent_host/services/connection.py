"""Connections to services, whose addresses are checked as those of the forward proxy are."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from agent_common.errors import ToolFailure
from agent_common.net import (
    ANY_ADDRESS,
    AddressPolicy,
    ByteStream,
    DirectUpstream,
    Resolver,
    SystemResolver,
    Url,
    public_tls,
    upgrade_to_tls,
)

from .errors import ServiceFailed


@dataclass(frozen=True, slots=True)
class ServiceConnector:
    """Opens a connection for each call. A name is looked up once, and the address that was checked is the one that is
    connected to."""

    resolver: Resolver = field(default_factory=SystemResolver)
    tls: Callable[[], ssl.SSLContext] = public_tls

    @asynccontextmanager
    async def open(self, url: Url, *, private: bool) -> AsyncGenerator[ByteStream]:
        """Open a connection to the host of a URL. `private`: its address need not be public. Raises ServiceFailed."""
        rules = ANY_ADDRESS if private else AddressPolicy()
        with as_service_failure(url):
            stream = await DirectUpstream(rules, self.resolver).open(url.host, url.port)
        try:
            if url.scheme == "https":
                with as_service_failure(url):
                    stream = await upgrade_to_tls(stream, url.host, await asyncio.to_thread(self.tls))
            yield stream
        finally:
            stream.close()


@contextlib.contextmanager
def as_service_failure(url: Url) -> Generator[None]:
    """Turn a failure of the connection into ServiceFailed."""
    try:
        yield
    except ToolFailure as error:
        codes = {"denied": "address_not_allowed", "timeout": "service_timeout", "invalid": "address_not_allowed"}
        raise ServiceFailed(str(error), code=codes.get(error.kind, "service_unreachable")) from error
    except OSError as error:
        text = f"the connection to {url.host} broke: {error.strerror or type(error).__name__}"
        raise ServiceFailed(text, code="service_unreachable") from error
