"""Send one POST to a URL that a caller has named. It follows no redirect, and reads no more than the status."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping

from ...errors import ToolFailure
from ..client.tls import public_tls
from .address_policy import AddressPolicy
from .http_request import HttpExchange
from .upstream import DirectUpstream, upgrade_to_tls
from .urls import Url, clip


async def post(
    url: Url,
    body: bytes,
    headers: Mapping[str, str],
    *,
    rules: AddressPolicy,
    seconds: float,
    tls: Callable[[], ssl.SSLContext] = public_tls,
) -> int:
    """Send the body and return the status of the answer. `seconds`: the longest that all of it takes.

    Names and values of `headers` are sent unchecked. Raises ToolFailure if the rules do not allow the address, or if no
    answer comes.
    """
    deadline = asyncio.timeout(seconds)
    try:
        async with deadline:
            stream = await DirectUpstream(rules).open(url.host, url.port)
            try:
                if url.scheme == "https":
                    stream = await upgrade_to_tls(stream, url.host, await asyncio.to_thread(tls))
                exchange = HttpExchange(stream, url.host, seconds)
                await exchange.send(_head(url, headers, len(body)) + body)
                return exchange.status
            finally:
                stream.close()
    except TimeoutError as error:
        if not deadline.expired():
            raise
        raise ToolFailure(f"{clip(url.host)} has not answered within {seconds:g} s", kind="timeout") from error


def _head(url: Url, headers: Mapping[str, str], length: int) -> bytes:
    fields = {"host": url.authority, **headers, "content-length": str(length), "connection": "close"}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"POST {url.target} HTTP/1.1\r\n{lines}\r\n".encode("ascii")
