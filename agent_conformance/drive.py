"""Make a listener send work: by the host's HTTP API, by a command, or not at all if it sends work by itself."""

from __future__ import annotations

import asyncio
import json
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, Protocol

from agent_common.errors import StartError
from agent_common.json_reader import JsonLimits, read_json
from agent_common.protocol import is_object

_SECONDS = 15.0
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Ignores the environment's proxies, which are for the web and not for a local listener."""


class WorkDriver(Protocol):
    """Submits work to the listener."""

    async def submit(self, content: str) -> str | None:
        """Submit work and return the request's id; None if it is not known. Raises StartError."""
        ...

    async def read_record(self, request_id: str) -> dict[str, Any] | None:
        """Return the listener's record of a request; None if there is no way to read it. Raises StartError."""
        ...


class NoWorkDriver:
    """For a listener that sends work by itself when an agent is ready, as that of microagent's mediation guide does."""

    async def submit(self, content: str) -> str | None:
        return None

    async def read_record(self, request_id: str) -> dict[str, Any] | None:
        return None


@dataclass(frozen=True, slots=True)
class CommandWorkDriver:
    """Runs a command for each request, with the content in WORK_CONTENT. It may print the request's id."""

    command: str

    async def submit(self, content: str) -> str | None:
        lines = (await _run_command("--drive", self.command, {"WORK_CONTENT": content})).split()
        return lines[-1] if len(lines) == 1 else None

    async def read_record(self, request_id: str) -> dict[str, Any] | None:
        return None


@dataclass(frozen=True, slots=True)
class CommandTaskPoster:
    """Runs a command that posts a task to the agent's own face. Raises StartError."""

    command: str

    async def __call__(self) -> None:
        await _run_command("--task", self.command, {})


async def _run_command(option: str, command: str, env: dict[str, str]) -> str:
    """Run a shell command and return its output. Raises StartError if it fails or takes too long."""
    process = await asyncio.create_subprocess_shell(
        command,
        env={**os.environ, **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            output, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise StartError(f"{option}: the command did not end within {_SECONDS:g} s") from None
    if process.returncode:
        error_output = errors.decode("utf-8", "replace").strip()[-300:]
        raise StartError(f"{option}: the command ended with {process.returncode}: {error_output}")
    return output.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class HttpWorkDriver:
    """Uses `POST /work` and `GET /work/{id}` of an agent-host."""

    url: str
    token: str
    workspace: str

    async def submit(self, content: str) -> str | None:
        principal = {"name": "conformance", "kind": "service", "verified": True}
        body = {"workspace": self.workspace, "request": {"content": content, "principal": principal}}
        reply = await asyncio.to_thread(self._call, "POST", "/work", body)
        found: Any = reply.get("request_id")
        return found if isinstance(found, str) else None

    async def read_record(self, request_id: str) -> dict[str, Any] | None:
        return await asyncio.to_thread(self._call, "GET", f"/work/{request_id}", None)

    def _call(self, method: str, path: str, body: object) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url.rstrip("/") + path, data, headers, method=method)  # noqa: S310
        try:
            with _OPENER.open(request, timeout=_SECONDS) as reply:
                found: Any = read_json(reply.read(1 << 20), JsonLimits(1 << 20))
        except urllib.error.HTTPError as error:
            raise StartError(f"--drive: {method} {path} answers {error.code}: {error.read(500)!r}") from error
        except (OSError, ValueError) as error:
            raise StartError(f"--drive: {method} {self.url}{path} failed: {error}") from error
        return found if is_object(found) else {}
