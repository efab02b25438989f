"""Folders of installed packages, one for each set of requirements, made by uv and kept.

uv runs confined, with a network that ends at this server's own proxy, and installs wheels only: no code of a package
runs before a worker imports it. A folder gets its name when it is whole; the next start removes what a crash has left.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from agent_common.net import (
    ANY_ADDRESS,
    AddressPolicy,
    ByteStream,
    DirectUpstream,
    ProxyUpstream,
    Upstream,
    authorities_pem,
    canonical_host,
    unix_socket_proxy,
)
from agent_common.redaction import Redactor, url_secrets
from agent_common.telemetry import logger

from ...errors import ToolFailure
from ...sandbox import CommandResult, Confinement, Quota, SandboxLimits, SandboxSpec

INSTALL_SECONDS = 90.0
ENVIRONMENT_BYTES = 1024 * 1024 * 1024
"""Of one environment, with what was downloaded for it."""
NAME_LENGTH = 16

Policy = Literal["off", "people", "all"]

log = logger(__name__)
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class PackageIndex:
    """Where packages come from, and the way there."""

    url: str | None = field(default=None, repr=False)
    """A simple index (PEP 503), perhaps with a password; None: uv's own default."""
    egress_url: str | None = None
    """The operator's forward proxy; None: straight out."""
    egress_token: str | None = field(default=None, repr=False)

    async def open(self, host: str, port: int) -> ByteStream:
        """Connect to the index, wherever it is, or to a public host that it refers to. Raises ToolFailure."""
        rules = ANY_ADDRESS if self._is_own(host, port) else AddressPolicy()
        if self.egress_url is not None:
            upstream: Upstream = ProxyUpstream(self.egress_url, self.egress_token, rules)
        else:
            upstream = DirectUpstream(rules)
        return await upstream.open(host, port)

    def _is_own(self, host: str, port: int) -> bool:
        """Whether it is the index itself, whose address may be any. Other programs of its machine are not: it may send
        uv there by a redirect or a link."""
        if self.url is None:
            return False
        own = urlsplit(self.url)
        return canonical_host(own.hostname or "") == host and (own.port or _PORTS[own.scheme]) == port


class Environments:
    """Makes each environment once; callers that need the same one wait for it."""

    def __init__(self, folder: Path, confinement: Confinement, policy: Policy, index: PackageIndex) -> None:
        self._folder = folder
        self._confinement = confinement
        self._policy = policy
        self._index = index
        self._locks: dict[str, asyncio.Lock] = {}

    async def get(self, requirements: Sequence[str], *, by_agent: bool) -> Path:
        """Return a folder for `sys.path`. Raises ToolFailure that says what cannot be had and why."""
        self._check_policy(requirements, by_agent=by_agent)
        name = environment_name(requirements)
        folder = self._folder / name
        async with self._locks.setdefault(name, asyncio.Lock()):
            if not folder.is_dir():
                await self._install(requirements, folder)
        return folder

    def prune(self, in_use: Collection[Path]) -> None:
        """Remove the environments that are not in use, and what an interrupted installation has left."""
        for entry in os.scandir(self._folder):
            if Path(entry.path) not in in_use:
                shutil.rmtree(entry.path, ignore_errors=True)

    def _check_policy(self, requirements: Sequence[str], *, by_agent: bool) -> None:
        names = ", ".join(requirements)
        if self._policy == "off" or (self._policy == "people" and by_agent):
            wanted = "all" if by_agent else "people"
            raise ToolFailure(
                f"dependencies ({names}) are not installed here; the operator allows it with "
                f"AGENT_SKILL_DEPENDENCIES={wanted}. Use the standard library, or bash",
                kind="denied",
            )
        if self._confinement.name not in ("bubblewrap", "off"):
            raise ToolFailure(
                f"dependencies ({names}) need the confinement bubblewrap, and here it is {self._confinement.name}",
                kind="unavailable",
            )

    async def _install(self, requirements: Sequence[str], folder: Path) -> None:
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=self._folder))
        try:
            target = new / "packages"
            target.mkdir()
            if self._confinement.uid is not None:
                for one in (new, target):
                    os.chown(one, self._confinement.uid, self._confinement.uid)
            done = await self._run_uv(requirements, new, target)
            if done.exit_code != 0:
                reason = Redactor(url_secrets(self._index.url or "")).redact(_failure_message(requirements, done))
                raise ToolFailure(reason, kind="unavailable" if done.timed_out else "invalid")
            await asyncio.to_thread(_take_ownership, target)
            target.rename(folder)
            log.info("installed dependencies of a skill", requirements=list(requirements), environment=folder.name)
        finally:
            await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)

    async def _run_uv(self, requirements: Sequence[str], new: Path, target: Path) -> CommandResult:
        argv = (
            *(_find_uv(), "pip", "install", "--quiet", "--no-progress", "--no-config", "--only-binary", ":all:"),
            *("--python", sys.executable, "--target", str(target), "--link-mode", "copy"),
            *("--", *requirements),
        )
        async with AsyncExitStack() as stack:
            socket = None
            if self._confinement.name == "bubblewrap":
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="agent-packages-"))
                way = unix_socket_proxy(Path(folder, "proxy"), _allow_any_host, self._index, uid=self._confinement.uid)
                socket = await stack.enter_async_context(way)
            sandbox_spec = SandboxSpec(
                new,
                writable=(new,),
                env=self._uv_environment(new),
                limits=SandboxLimits(processes=64, file_size=ENVIRONMENT_BYTES),
                quotas=(Quota.for_size(new, ENVIRONMENT_BYTES, "the environment of a skill"),),
                network=socket,
            )
            return await self._confinement.run(argv, sandbox_spec, timeout=INSTALL_SECONDS)

    def _uv_environment(self, new: Path) -> dict[str, str]:
        """Return the variables of uv. The index is one, and no argument: it may hold a password, and every user of the
        machine may read arguments."""
        index = {"UV_DEFAULT_INDEX": self._index.url} if self._index.url else {}
        trusted = {"SSL_CERT_FILE": str(path)} if (path := _write_authorities(new)) else {}
        return {"UV_CACHE_DIR": str(new / "cache"), "UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "1", **index, **trusted}


async def _allow_any_host(_host: str, _port: int, _agent: str) -> str | None:
    return None  # where uv goes is decided by the index; PackageIndex keeps it to public hosts


def environment_name(requirements: Sequence[str]) -> str:
    """Name the environment by all that decides what is in it."""
    key = json.dumps([list(requirements), sys.version_info[:2], sys.platform, os.uname().machine])
    return hashlib.sha256(key.encode()).hexdigest()[:NAME_LENGTH]


def _write_authorities(new: Path) -> Path | None:
    """Write the certificate authorities that the environment names where uv can read them; None if it names none."""
    try:
        pem = authorities_pem(os.environ)
    except ValueError as error:
        raise ToolFailure(f"dependencies cannot be installed: {error}", kind="unavailable") from None
    if pem is None:
        return None
    path = new / "authorities.pem"
    path.write_text(pem)
    path.chmod(0o644)
    return path


def _find_uv() -> str:
    try:
        import uv
    except ImportError:
        found = shutil.which("uv")
        if found is None:
            raise ToolFailure(
                "dependencies need uv: install our extra skills, or put uv on the PATH",
                kind="unavailable",
            ) from None
        return found
    return uv.find_uv_bin()


def _take_ownership(target: Path) -> None:
    """Give the packages to the server's user: no command can change them. Links are removed, wheels have none."""
    for path, folders, files in os.walk(target):
        for name in (*folders, *files):
            entry = os.path.join(path, name)
            if os.path.islink(entry):
                os.unlink(entry)
                continue
            os.chown(entry, os.geteuid(), os.getegid(), follow_symlinks=False)
            os.chmod(entry, 0o755 if name in folders else 0o644)
    os.chown(target, os.geteuid(), os.getegid())
    os.chmod(target, 0o755)  # noqa: S103


def _failure_message(requirements: Sequence[str], done: CommandResult) -> str:
    names = ", ".join(requirements)
    if done.timed_out:
        return f"dependencies ({names}) were not installed within {INSTALL_SECONDS:g} s"
    text = " ".join((done.stopped or done.stderr).split())[-600:]
    hint = "; AGENT_SKILL_INDEX names another index, if this one cannot be reached" if "Failed to fetch" in text else ""
    return f"dependencies ({names}) cannot be installed: {text}{hint}"
