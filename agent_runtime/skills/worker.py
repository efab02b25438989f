"""The process in which one plugin lives: `python -I -m agent_runtime.skills.worker SKILLS_DIR PLUGIN WORKSPACE`.

The main thread imports the plugin and makes its calls, one at a time; a second thread reads what the server says. The
pipes are moved out of the way first, so that what a plugin prints goes to the log and not between the messages.
"""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import os
import queue
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import MeshUnavailable
from .loading import Unloadable, explain, load
from .mesh_proxy import Asking, AsyncMesh, BlockingMesh
from .plugin import Skill
from .wire import Broken, Message, pack, unpack


class Worker:
    """Answers the server's calls with the skills of one plugin until the server hangs up."""

    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO, skills_dir: Path, workspace: Path) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        self._skills_dir = skills_dir
        self._workspace = workspace
        self._writing = threading.Lock()
        self._calls: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._asking = Asking(self._send)
        self._skills: dict[str, Skill] = {}

    def run(self, plugin: Path) -> None:
        try:
            skills = load(plugin)
            self._skills = {one.name: one for one in skills}
            self._send({"type": "loaded", "skills": [one.declared() for one in skills]})
        except Unloadable as fault:
            self._send({"type": "failed", "error": str(fault)})
            return
        while (message := self._calls.get()) is not None:
            self._answer(message)

    def listen(self) -> None:
        """Reads until the server hangs up."""
        try:
            for line in self._incoming:
                message = unpack(line)
                if message["type"] == "reply":
                    self._asking.reply(message)
                else:
                    self._calls.put(message)
        except (Broken, OSError, ValueError):
            pass  # the pipe is gone, or the plugin has broken it: there is no one left to tell
        finally:
            self._calls.put(None)

    def _answer(self, call: Message) -> None:
        head: Message = {"id": call["id"]}
        try:
            line = _result(head, self._call(self._skills[call["name"]], call["arguments"]))
        except MeshUnavailable as error:
            line = pack({"type": "error", **head, "error": str(error), "kind": "unavailable"})
        except BaseException as error:  # noqa: BLE001 - also sys.exit in a plugin is an answer
            line = pack({"type": "error", **head, "error": explain(error, self._skills_dir), "kind": "backend"})
        self._write(line)

    def _call(self, one: Skill, arguments: Mapping[str, Any]) -> Any:
        properties = one.parameters.get("properties", {})
        absent = {name: value["default"] for name, value in properties.items() if "default" in value}
        keywords = {**absent, **arguments}
        is_async = inspect.iscoroutinefunction(one.function)
        if one.takes("mesh_client"):
            keywords["mesh_client"] = AsyncMesh(self._asking) if is_async else BlockingMesh(self._asking)
        if one.takes("workspace"):
            keywords["workspace"] = self._workspace
        value = one.function(**keywords)
        return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value

    def _send(self, message: Message) -> None:
        self._write(pack(message))

    def _write(self, line: bytes) -> None:
        with self._writing:
            self._outgoing.write(line)
            self._outgoing.flush()


def _result(head: Message, value: Any) -> bytes:
    try:
        return pack({"type": "result", **head, "value": value})
    except (TypeError, ValueError, RecursionError) as error:
        return pack({"type": "error", **head, "error": f"the skill's result is not JSON: {error}", "kind": "backend"})


async def _awaited(value: Any) -> Any:
    return await value


def main() -> None:
    skills_dir, plugin, workspace = (Path(argument) for argument in sys.argv[1:4])
    incoming, outgoing = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    faulthandler.enable(all_threads=False)
    sys.path.append(str(skills_dir))
    worker = Worker(incoming, outgoing, skills_dir, workspace)

    def listen() -> None:
        worker.listen()
        os._exit(0)  # whatever the plugin is doing: nobody waits for it any more

    threading.Thread(target=listen, daemon=True).start()
    worker.run(plugin)


if __name__ == "__main__":
    main()
