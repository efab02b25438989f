"""Small web servers on loopback under names of their own, and a resolver that knows those."""

from __future__ import annotations

import asyncio
import inspect
import ipaddress
import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_common.net.egress.address_policy import AddressPolicy
from agent_common.net.egress.upstream import DirectUpstream

LOOPBACK = AddressPolicy((ipaddress.ip_network("127.0.0.0/8"),))
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Names:
    """A resolver. A name may have several answers, given one after the other; the last one stays."""

    def __init__(self, names: Mapping[str, Sequence[str] | str]) -> None:
        self._names = {name: [given] if isinstance(given, str) else list(given) for name, given in names.items()}
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._names.get(host)
        if answers is None:
            raise OSError(-2, "Name or service not known")
        return (answers.pop(0) if len(answers) > 1 else answers[0]).split()


def everywhere(names: Sequence[str] = ("a.test", "b.test")) -> DirectUpstream:
    """A way out on which these names lead to this machine."""
    return DirectUpstream(LOOPBACK, Names(dict.fromkeys(names, "127.0.0.1")), seconds=5)


@dataclass
class Web:
    """A server that answers each path with raw bytes."""

    port: int
    heads: list[bytes] = field(default_factory=list[bytes])
    connections: int = 0

    def url(self, path: str = "/", host: str = "a.test", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def web(
    pages: Mapping[str, bytes | Callable[[Web], bytes] | Handler], tls: ssl.SSLContext | None = None
) -> AsyncGenerator[Web]:
    """Answers with the bytes of a page, what a function makes of the server, or however a handler likes."""
    seen, opened = Web(0), list[asyncio.StreamWriter]()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Coroutine[Any, Any, None]:
        opened.append(writer)
        return serve(reader, writer)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            seen.heads.append(head)
            page = pages.get(head.split(b" ", 2)[1].decode(), b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
            if not isinstance(page, bytes) and inspect.iscoroutinefunction(page):
                await page(reader, writer)
            else:
                writer.write(page if isinstance(page, bytes) else page(seen))  # type: ignore[call-arg, arg-type]
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls) as server:
        seen.port = server.sockets[0].getsockname()[1]
        try:
            yield seen
        finally:
            for writer in opened:  # also those whose `serve` has not begun, or waits for the last words of TLS
                writer.transport.abort()


def page(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """An answer with its length."""
    fields = {"content-type": "text/plain", **{name.replace("_", "-"): value for name, value in headers.items()}}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status}\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body


def leads_to(path: str, *, host: str = "a.test", scheme: str = "http", status: int = 302) -> Callable[[Web], bytes]:
    return lambda seen: page(b"", f"{status} Found", location=seen.url(path, host, scheme))


@dataclass(frozen=True)
class Authority:
    """A certificate authority, and a server with its certificate for one name."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    certificate: Path
    """The authority's."""


def authority(folder: Path, name: str) -> Authority:
    root, leaf = folder / f"{name}-root", folder / name
    _certify(root, "an authority of tests", "basicConstraints=critical,CA:TRUE")
    signed = ("-CA", f"{root}.pem", "-CAkey", f"{root}.key")
    _certify(leaf, name, f"subjectAltName=DNS:{name}", "basicConstraints=critical,CA:FALSE", signed=signed)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(f"{leaf}.pem", f"{leaf}.key")
    certificate = Path(f"{root}.pem")
    return Authority(server, ssl.create_default_context(cafile=certificate), certificate)


def _certify(path: Path, name: str, *extensions: str, signed: Sequence[str] = ()) -> None:
    openssl = shutil.which("openssl")
    assert openssl, "these tests need openssl"
    subprocess.run(
        (
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", *signed),
            *("-keyout", f"{path}.key", "-out", f"{path}.pem", "-days", "2", "-subj", f"/CN={name}"),
            *(part for extension in extensions for part in ("-addext", extension)),
        ),
        check=True,
        capture_output=True,
    )
