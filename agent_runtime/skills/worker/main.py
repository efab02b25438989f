"""Run one plugin in a process of its own; `boot` starts it with FOLDER PLUGIN WORKSPACE.

The main thread imports the plugin and makes its calls, one at a time; a second thread reads the server's messages. The
pipes are moved first, so that what a plugin prints goes to the log and not between the messages.
"""

from __future__ import annotations

import faulthandler
import inspect
import os
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ...errors import MeshRefused, MeshUnavailable
from ..workers.protocol import BrokenProtocol, Message, end_of_log, pack_answer, unpack
from .builtins_guard import BuiltinsGuard, Tampered
from .loading import Loaded, Unloadable, explain_error, load_plugin
from .mesh_proxy import Asking, AsyncMesh, BlockingMesh
from .plugin import Skill
from .process_state import LeftoverState, ProcessSnapshot

MAX_ERROR_LENGTH = 10_000
"""Characters of an error that are sent; the server keeps fewer."""
LOWEST_PRIORITY = 39
"""Added to the niceness, which gives the lowest priority from any start."""


class SkillWorker:
    """Answers the server's calls with the skills of one plugin until the pipe closes."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO, folder: Path, workspace: Path) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._folder = folder
        self._workspace = workspace
        self._write_lock = threading.Lock()
        self._calls: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._asking = Asking(self._send)
        self._skills: dict[str, Skill] = {}

    def run(self, plugin: Path) -> None:
        self._send({"type": "ready"})  # the server lists the processes before any code of the plugin runs
        request = self._calls.get()
        if request is None:
            return
        try:
            with BuiltinsGuard():
                loaded = load_plugin(plugin)
                if request.get("trial"):
                    self._run_self_check(loaded)
            self._skills = {one.name: one for one in loaded.skills}
            self._snapshot = ProcessSnapshot()
            self._send({"type": "loaded", "skills": [one.describe() for one in loaded.skills]})
        except (Unloadable, Tampered) as fault:
            self._send({"type": "failed", "error": str(fault)[:MAX_ERROR_LENGTH]})
            return
        while (message := self._calls.get()) is not None:
            self._handle_call(message)

    def listen(self) -> None:
        """Read the server's messages until the pipe closes."""
        try:
            for line in self._incoming:
                message = unpack(line)
                if message["type"] == "reply":
                    self._asking.reply(message)
                else:
                    self._calls.put(message)
        except (BrokenProtocol, OSError, ValueError):
            pass  # the pipe is closed, or the plugin has broken it
        finally:
            self._calls.put(None)

    def _run_self_check(self, loaded: Loaded) -> None:
        if loaded.self_check is None:
            return
        try:
            passed = self._invoke(loaded.self_check, {})
        except BaseException as error:  # noqa: BLE001 - also sys.exit in a plugin is an answer
            raise Unloadable(f"its self_check failed: {explain_error(error, self._folder)}") from None
        if passed is False:
            raise Unloadable("its self_check returned False")

    def _handle_call(self, call: Message) -> None:
        number = call["id"]
        try:
            with BuiltinsGuard():
                value = self._call_skill(self._skills[call["name"]], call["arguments"])
                self._snapshot.check_threads()
            line = _pack_result(number, value, self._is_spent())
        except (Tampered, LeftoverState) as error:
            _end_log(number)
            self._write(_pack_error(number, str(error), spent=True))
            os._exit(1)  # it may have replaced more
        except MeshRefused as error:
            line = _pack_error(number, explain_error(error, self._folder), spent=self._is_spent())
        except MeshUnavailable as error:
            line = _pack_error(number, str(error), kind="unavailable", spent=self._is_spent())
        except BaseException as error:  # noqa: BLE001 - also sys.exit in a plugin is an answer
            line = _pack_error(number, explain_error(error, self._folder), spent=self._is_spent())
        _end_log(number)
        self._write(line)

    def _is_spent(self) -> bool:
        return not self._snapshot.is_unchanged()

    def _call_skill(self, one: Skill, arguments: Mapping[str, Any]) -> Any:
        return self._invoke(one.function, one.arguments.convert(arguments))

    def _invoke(self, function: Callable[..., Any], keywords: Mapping[str, Any]) -> Any:
        taken = inspect.signature(function).parameters
        mesh = AsyncMesh if inspect.iscoroutinefunction(function) else BlockingMesh
        offered = {"mesh_client": lambda: mesh(self._asking), "workspace": lambda: self._workspace}
        injected = {name: offer() for name, offer in offered.items() if name in taken}
        value = function(**keywords, **injected)
        return _run_awaitable(value) if inspect.isawaitable(value) else value

    def _send(self, message: Message) -> None:
        self._write(pack_answer(message))

    def _write(self, line: bytes) -> None:
        with self._write_lock:
            self._outgoing.write(line)
            self._outgoing.flush()


def _end_log(number: str) -> None:
    """Mark where the output of a call ends."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.write(2, end_of_log(number))
    except (OSError, ValueError, AttributeError):
        pass  # the plugin has closed or replaced its streams: the server does not wait long for the mark


def _pack_result(number: str, value: Any, spent: bool) -> bytes:
    try:
        return pack_answer({"type": "result", "id": number, "value": value, "spent": spent})
    except (TypeError, ValueError, RecursionError) as error:
        return _pack_error(number, f"the skill's result is not JSON: {error}", spent=spent)


def _pack_error(number: str, text: str, *, kind: str = "backend", spent: bool) -> bytes:
    return pack_answer({"type": "error", "id": number, "error": text[:MAX_ERROR_LENGTH], "kind": kind, "spent": spent})


def _run_awaitable(value: Any) -> Any:
    import asyncio  # takes longer to import than everything else here, and many plugins never need it

    async def awaited() -> Any:
        return await value

    return asyncio.run(awaited())


def _site_packages_index() -> int:
    places = [at for at, path in enumerate(sys.path) if path.endswith("site-packages")]
    return places[0] if places else len(sys.path)


def main() -> None:
    folder, plugin, workspace, *packages = (Path(argument) for argument in sys.argv[1:])
    incoming = os.fdopen(os.dup(0), "rb")
    outgoing = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    faulthandler.enable(all_threads=False)
    os.nice(LOWEST_PRIORITY)  # a thread's own: set before there is another one, and before any code of the plugin runs
    for environment in packages:  # before the server's own packages: the plugin may need other versions
        sys.path.insert(_site_packages_index(), str(environment))
    sys.path.append(str(folder))
    worker = SkillWorker(incoming, outgoing, folder, workspace)

    def listen() -> None:
        worker.listen()
        os._exit(0)  # even if the plugin is running: the server is gone

    threading.Thread(target=listen, daemon=True).start()
    worker.run(plugin)
