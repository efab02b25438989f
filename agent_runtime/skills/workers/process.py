"""Start skill workers and exchange messages with them: confined processes that answer calls and may ask the mesh."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from agent_common.json_reader import JsonLimits, JsonRefused, read_json, run_by_size
from agent_common.protocol import is_object
from agent_common.telemetry import Seldom, connection_lines, logger

from ...errors import AgentRuntimeError, MeshRefused, ToolFailure
from ...ports import Mesh, ToolContext
from ...sandbox import Confinement, Quota, SandboxLimits, SandboxProcess, SandboxSpec
from ...workspace import PromptFileAuthors, Writer, watch_call
from ..sources.staging import StagedBuild
from .caller import CallOrigin, MeshTools
from .idle_workers import IdleWorkers
from .network import open_network
from .output_log import TAIL_BYTES, OutputLog
from .protocol import ANSWER_LIMIT, MAX_VALUES, BrokenProtocol, Message, pack, unpack

if TYPE_CHECKING:
    from agent_common.net import Upstream

MAX_OPEN_ASKS = 8
"""Mesh requests that a call may have open; further ones wait in the pipe."""
ASK_SECONDS = 0.001
ASK_RATE = 8 * 2**20
"""A mesh request delays the next one of its worker by ASK_SECONDS, and by a second for each ASK_RATE bytes, so that a
worker that asks without end does not occupy the server."""
MAX_SKILLS = 64
"""Skills of one plugin: the model gets all of them."""
READ_SIZE = 16 * 1024
THROTTLE_SECONDS = 0.005
"""Seconds between reads of a plugin that prints without end."""
ANSWER_JSON_LIMITS = JsonLimits(ANSWER_LIMIT, MAX_VALUES)
LOAD_SECONDS = 15.0
LINGER_SECONDS = 30.0

WORKER_ARGV = (sys.executable, "-I", str(Path(__file__).parents[1] / "worker" / "boot.py"))

log = logger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """How the workers of a server are started."""

    confinement: Confinement
    mesh: Mesh
    workspace: Path
    limits: SandboxLimits
    load_seconds: float = LOAD_SECONDS
    """Seconds that an import may take, `self_check` included."""
    idle: IdleWorkers[WorkerProcess] = field(default_factory=IdleWorkers["WorkerProcess"])
    upstream: Upstream | None = None
    """Connects plugins that may reach hosts; None: directly."""
    mesh_tools: MeshTools | None = None
    """Answers what `mesh_client` offers beside models; None: nothing is."""
    linger_seconds: float = LINGER_SECONDS
    """How long more than one idle worker of a build is kept: parallel calls tend to come again."""
    authors: PromptFileAuthors | None = None
    """Keeps who writes files that become instructions; None: nobody does."""
    connections: Seldom = field(default_factory=connection_lines)
    """Bounds the lines about connections, by plugin."""
    failed_asks: Seldom = field(default_factory=Seldom)
    """Counts mesh requests that failed unexpectedly, by type of error: plugins ask as often as they like."""

    def watched(self, staged: StagedBuild) -> AbstractAsyncContextManager[None]:
        """Attribute to the plugin what changes while it runs outside of an agent's call, at its import and its trials:
        nobody asked for that, and its author may have read text from outside."""
        writer = Writer.of_plugin(staged.plugin.name)
        return watch_call(self.authors, lambda: writer)

    async def start(self, staged: StagedBuild, context: ToolContext | None = None) -> WorkerProcess:
        """Start a worker for this call; `load` then imports the plugin. Raises ToolFailure when it cannot be
        started."""
        packages = (staged.environment,) if staged.environment is not None else ()
        async with AsyncExitStack() as stack:
            caller = CallOrigin(self.mesh, self.mesh_tools)
            caller.set_meters(context)
            network = await open_network(
                staged, self.confinement, self.upstream, stack, caller.count_egress, self.connections
            )
            child = await self.confinement.spawn(
                (*WORKER_ARGV, *map(str, (staged.folder, staged.plugin, self.workspace, *packages))),
                SandboxSpec(
                    self.workspace,
                    writable=(self.workspace,),
                    readable=(staged.folder, *packages),
                    env=staged.grant.env,
                    limits=self.limits,
                    quotas=(Quota.for_size(self.workspace, self.limits.workspace, "the workspace"),),
                    network=network,
                    lowers_own_priority=True,
                ),
                line_limit=ANSWER_LIMIT,
            )
            return WorkerProcess(child, self.load_seconds, stack.pop_all(), caller, self.failed_asks)


@dataclass(frozen=True, slots=True)
class WorkerResult:
    """The result of a call."""

    value: Any
    log: str
    """The end of what it printed."""


class WorkerProcess:
    """One worker process. It has one exchange at a time, and is not used again after one that failed."""

    def __init__(
        self,
        child: SandboxProcess,
        load_seconds: float,
        resources: AsyncExitStack,
        caller: CallOrigin,
        failed_asks: Seldom,
    ) -> None:
        self._child = child
        self._caller = caller
        self._failed_asks = failed_asks
        self._resources = resources
        """Closed with the process: its proxy, if it has one."""
        self._load_seconds = load_seconds
        self._printed = OutputLog()
        self._initial_processes: dict[int, str] = {}
        """The processes, by pid, from before any code of the plugin ran."""
        self._spent = False
        """Whether the worker says that a call has changed its process, so that it is not fit for another one."""
        self._last_size = 0
        """Bytes of the last message."""
        self._threads = 0
        """Threads after the import: libraries start some that wait for work."""
        self._stderr_task = asyncio.create_task(self._read_stderr())

    async def load(self, *, on_trial: bool = False) -> list[Mapping[str, Any]]:
        """Import the plugin and return the skills that it declares; `on_trial` also runs its `self_check`. Raises
        ToolFailure with the plugin's fault."""
        try:
            async with asyncio.timeout(self._load_seconds):
                message = await self._receive_first()
                if message["type"] == "ready":
                    self._initial_processes = self._child.processes()
                    await self._send({"type": "load", "trial": on_trial})
                    message = await self._receive_answer()
        except TimeoutError:
            raise ToolFailure(f"importing it took longer than {self._load_seconds:g} s") from None
        self._threads = self._child.threads()
        skills: Any = message.get("skills")
        if message["type"] == "loaded" and isinstance(skills, list):
            declared = [cast("Mapping[str, Any]", one) for one in cast("list[Any]", skills) if isinstance(one, dict)]
            if len(declared) > MAX_SKILLS:
                raise ToolFailure(f"it declares more than {MAX_SKILLS} skills; make several plugins of it")
            return declared
        raise ToolFailure(str(message.get("error", "the worker broke the protocol"))[:TAIL_BYTES])

    async def _receive_first(self) -> Message:
        """Receive the first message. A worker that ends before it is no fault of the plugin, but `unavailable`."""
        try:
            return await self._receive()
        except ToolFailure as failure:
            raise ToolFailure(f"a worker could not be started: {failure.message}", kind="unavailable") from failure

    async def call(self, name: str, arguments: Mapping[str, Any], context: ToolContext | None = None) -> WorkerResult:
        """Return the skill's result. Raises SkillError when the skill fails, another ToolFailure when the worker
        dies."""
        with self._caller.for_call(context):
            try:
                return await self._call(name, arguments)
            except asyncio.CancelledError:  # by its deadline, or by the end of its turn
                if context is not None:
                    log.warning("skill stopped", skill=name, call_id=context.call_id, text=self._printed.text)
                raise

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> WorkerResult:
        number = secrets.token_hex(8)  # random, so that a plugin cannot leave an answer in the pipe for a later call
        self._printed.begin(number)
        await self._send({"type": "call", "id": number, "name": name, "arguments": dict(arguments)})
        answer = await self._receive_answer()
        self._spent = bool(answer.get("spent"))
        log = await self._printed.collect()
        match answer:
            case {"type": "result", "id": answered, "value": value} if answered == number:
                return WorkerResult(value, log)
            case {"type": "error", "id": answered, "error": str(text), "kind": "unavailable"} if answered == number:
                raise SkillError(_with_log(text[:TAIL_BYTES], log), kind="unavailable")
            case {"type": "error", "id": answered, "error": str(text)} if answered == number:
                raise SkillError(_with_log(text[:TAIL_BYTES], log))
            case _:
                raise ToolFailure("the skill's process broke the protocol")

    def pause(self) -> bool:
        """Stop the process until the next call, timers included. Return False when a call has left a process or a
        thread running, or has changed its process: then the worker must be closed."""
        if self._spent or not self._signal(signal.SIGSTOP):
            return False
        # Checked once it is stopped: until then it could start another one after the check.
        return not (
            self._child.processes().keys() - self._initial_processes.keys() or self._child.threads() > self._threads
        )

    def resume(self) -> bool:
        """Let the process continue. Return False when it has died."""
        return self._child.running and self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> bool:
        there = self._child.processes()  # the pid of a process that has ended may belong to another one by now
        found = [
            pid
            for pid, line in self._initial_processes.items()
            if pid in there and line.startswith(" ".join(WORKER_ARGV))
        ]
        try:
            for pid in found:
                os.kill(pid, number)
        except OSError:
            return False
        return bool(found)

    async def close(self) -> None:
        try:
            await self._child.close()
        finally:
            self._stderr_task.cancel()
            await asyncio.gather(self._stderr_task, return_exceptions=True)
            await self._resources.aclose()

    async def _send(self, message: Message) -> None:
        await self._write(pack(message))

    async def _write(self, line: bytes) -> None:
        try:
            self._child.stdin.write(line)
            await self._child.stdin.drain()
        except ConnectionError:
            raise await self._death_failure() from None

    async def _receive_answer(self) -> Message:
        """Receive the answer to a message, and carry out the mesh requests that come before it."""
        asks: set[asyncio.Task[None]] = set()
        try:
            while (message := await self._receive())["type"] == "ask":
                await asyncio.sleep(ASK_SECONDS + self._last_size / ASK_RATE)
                if len(asks) >= MAX_OPEN_ASKS:
                    await asyncio.wait(asks, return_when=asyncio.FIRST_COMPLETED)
                asks = {one for one in asks if not one.done()} | {asyncio.create_task(self._answer_ask(message))}
            return message
        finally:
            for one in asks:
                one.cancel()
            await asyncio.gather(*asks, return_exceptions=True)

    async def _receive(self) -> Message:
        try:
            line = await self._child.stdout.readline()
            if not line.endswith(b"\n"):
                raise await self._death_failure()
            self._last_size = len(line)
            return await run_by_size(len(line), partial(_parse_message, line))
        except (BrokenProtocol, ValueError) as error:
            raise ToolFailure(f"the skill's process broke the protocol: {error}") from error

    async def _death_failure(self) -> ToolFailure:
        await self._child.kill()
        code = await self._child.wait()
        await asyncio.wait({self._stderr_task}, timeout=1)
        printed = self._printed.text
        why = self._child.stopped or _exit_reason(code)
        return ToolFailure(f"the skill's process ended ({why}){': ' if printed else ''}{printed}")

    async def _read_stderr(self) -> None:
        """Keep the end of what the plugin prints."""
        while piece := await self._child.stderr.read(READ_SIZE):
            self._printed.feed(piece)
            if len(piece) == READ_SIZE:
                await asyncio.sleep(THROTTLE_SECONDS)

    async def _answer_ask(self, ask: Message) -> None:
        """Carry out a mesh request. The skill gets an answer in every case."""
        head: Message = {"type": "reply", "id": ask.get("id")}
        try:
            line = pack({**head, "value": await self._caller.answer(ask.get("what"), ask.get("arguments"))})
        except MeshRefused as error:
            line = pack({**head, "error": error.message, "refused": error.kind})
        except AgentRuntimeError as error:
            line = pack({**head, "error": error.message})
        except Exception as error:
            more = self._failed_asks.facts_of_event(type(error).__name__)
            if more is not None:
                log.exception("mesh call of a skill failed", **more)
            line = pack({**head, "error": f"the mesh call failed ({type(error).__name__})"})
        await self._write(line)


def _parse_message(line: bytes) -> Message:
    """Return the message of a line. Raises BrokenProtocol."""
    try:
        message: Any = read_json(line, ANSWER_JSON_LIMITS)
    except JsonRefused as refusal:
        if refusal.code != "invalid_json" or b"\\ud" not in line.lower():
            raise BrokenProtocol(f"not a message: {refusal}") from None
        message = _without_surrogates(line)
    if not is_object(message) or not isinstance(message.get("type"), str):
        raise BrokenProtocol("not a message: it has no type")
    return message


def _without_surrogates(line: bytes) -> Any:
    try:
        return read_json(json.dumps(unpack(line), ensure_ascii=False).encode(), ANSWER_JSON_LIMITS)
    except JsonRefused as refusal:
        raise BrokenProtocol(f"not a message: {refusal}") from None


class SkillError(ToolFailure):
    """The skill raised an error; its process is fit for further calls."""


def _with_log(error: str, log: str) -> str:
    return f"{error}\nIt printed:\n{log}" if log else error


def _exit_reason(code: int) -> str:
    if code < 0:
        return f"signal {-code}"
    return f"signal {code - 128}" if code > 128 else f"exit code {code}"
