"""A skill worker as the server sees it: a confined process that answers calls and may ask the mesh something."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ..errors import AgentRuntimeError, MeshUnavailable, ToolFailure
from ..ports import Mesh
from ..sandbox import Box, Child, Confinement, Limits
from ..telemetry import logger
from .wire import MESSAGE_LIMIT, Broken, Message, pack, unpack

MOST_ASKS = 8
"""Questions to the mesh that a call may have open; further ones wait in the pipe."""
MOST_SKILLS = 64
"""Skills of one plugin: each of them is told to the model."""
TAIL = 2000
"""Bytes of what a worker printed last that are kept, to explain its death."""
PIECE = 16 * 1024
THROTTLE = 0.005
"""Seconds between reads of a plugin that prints without end."""
LOAD_SECONDS = 15.0

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class Setup:
    """How the workers of a server are started."""

    confinement: Confinement
    mesh: Mesh
    skills_dir: Path
    workspace: Path
    limits: Limits
    load_seconds: float = LOAD_SECONDS
    """What an import may take."""

    async def start(self, plugin: Path) -> Process:
        """A worker with its plugin being imported. Raises ToolFailure when it cannot be started."""
        argv = (sys.executable, "-I", "-m", "agent_runtime.skills.worker")
        child = await self.confinement.spawn(
            (*argv, str(self.skills_dir), str(plugin), str(self.workspace)),
            Box(self.workspace, writable=(self.workspace,), readable=(self.skills_dir,), limits=self.limits),
            line_limit=MESSAGE_LIMIT,
        )
        return Process(child, self.mesh, self.load_seconds)


class Process:
    """One worker. It is used for one exchange at a time, and not again after one that failed."""

    def __init__(self, child: Child, mesh: Mesh, load_seconds: float) -> None:
        self._child = child
        self._mesh = mesh
        self._load_seconds = load_seconds
        self._ids = itertools.count(1)
        self._printed = b""
        self._listening = asyncio.create_task(self._listen())

    async def load(self) -> list[Mapping[str, Any]]:
        """The skills that the plugin declares. Raises ToolFailure with the plugin's fault."""
        try:
            async with asyncio.timeout(self._load_seconds):
                message = await self._receive()
        except TimeoutError:
            raise ToolFailure(f"importing it took longer than {self._load_seconds:g} s") from None
        skills: Any = message.get("skills")
        if message["type"] == "loaded" and isinstance(skills, list):
            declared = [cast("Mapping[str, Any]", one) for one in cast("list[Any]", skills) if isinstance(one, dict)]
            if len(declared) > MOST_SKILLS:
                raise ToolFailure(f"it declares more than {MOST_SKILLS} skills; make several plugins of it")
            return declared
        raise ToolFailure(str(message.get("error", "the worker does not speak as agreed"))[:TAIL])

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """The skill's result. Raises ToolFailure when the skill fails, or the worker dies of it."""
        number = next(self._ids)
        await self._send({"type": "call", "id": number, "name": name, "arguments": dict(arguments)})
        asks: set[asyncio.Task[None]] = set()
        try:
            while (message := await self._receive())["type"] == "ask":
                if len(asks) >= MOST_ASKS:
                    await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
                asks = {one for one in asks if not one.done()} | {asyncio.create_task(self._reply(message))}
        finally:
            for one in asks:
                one.cancel()
            await asyncio.gather(*asks, return_exceptions=True)
        match message:
            case {"type": "result", "id": answered, "value": value} if answered == number:
                return value
            case {"type": "error", "id": answered, "error": str(text), "kind": "unavailable"} if answered == number:
                raise SkillError(text[:TAIL], kind="unavailable")
            case {"type": "error", "id": answered, "error": str(text)} if answered == number:
                raise SkillError(text[:TAIL])
            case _:
                raise ToolFailure("the skill's process does not speak as agreed")

    @property
    def alive(self) -> bool:
        return self._child.running

    async def close(self) -> None:
        try:
            await self._child.close()
        finally:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)

    async def _send(self, message: Message) -> None:
        try:
            self._child.stdin.write(pack(message))
            await self._child.stdin.drain()
        except ConnectionError:
            raise await self._death() from None

    async def _receive(self) -> Message:
        try:
            line = await self._child.stdout.readline()
            if not line.endswith(b"\n"):
                raise await self._death()
            return unpack(line)
        except (Broken, ValueError) as error:
            raise ToolFailure(f"the skill's process does not speak as agreed: {error}") from error

    async def _death(self) -> ToolFailure:
        await self._child.kill()
        code = await self._child.wait()
        await asyncio.wait({self._listening}, timeout=1)
        printed = self._printed.decode(errors="replace").strip()
        return ToolFailure(f"the skill's process ended ({_cause(code)}){': ' if printed else ''}{printed}")

    async def _listen(self) -> None:
        """Keeps the end of what the plugin prints."""
        while piece := await self._child.stderr.read(PIECE):
            self._printed = (self._printed + piece)[-TAIL:]
            if len(piece) == PIECE:
                await asyncio.sleep(THROTTLE)

    async def _reply(self, ask: Message) -> None:
        """Carries a question to the mesh. Whatever becomes of it, the skill gets an answer."""
        try:
            value = await self._ask(ask.get("what"), ask.get("arguments"))
            line = {"type": "reply", "id": ask.get("id"), "value": value}
        except AgentRuntimeError as error:
            line = {"type": "reply", "id": ask.get("id"), "error": error.message}
        except Exception as error:
            log.exception("mesh call of a skill failed")
            line = {"type": "reply", "id": ask.get("id"), "error": f"the mesh call failed ({type(error).__name__})"}
        await self._send(line)

    async def _ask(self, what: Any, arguments: Any) -> Any:
        offers = {"chat": self._mesh.chat, "embed": self._mesh.embed}
        offer: Any = offers.get(what) if isinstance(what, str) else None
        if offer is None:
            raise MeshUnavailable(f"this host does not offer {what}; there are: {', '.join(offers)}")
        return await offer(**arguments)


class SkillError(ToolFailure):
    """The skill itself failed; its process is as good as before."""


def _cause(code: int) -> str:
    if code < 0:
        return f"signal {-code}"
    return f"signal {code - 128}" if code > 128 else f"exit code {code}"
