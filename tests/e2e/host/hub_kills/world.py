"""A host, perhaps a second hub on its database, runtimes that answer, and agents that speak to them."""

from __future__ import annotations

import json
import re
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agent_testing import LiveProcess, Say, ScriptedProvider
from agent_testing.provider import Recorded
from tests.integration.host.live import PATIENCE, Host
from tests.integration.host.members import make_member
from tests.ports import free_port

from ...narrow import is_summary
from ..hub_world import HubRuntime

RUNTIMES = ("ann", "bob")
SPEAKERS = ("ann-one", "ann-two", "bob-one", "bob-two")
"""Each speaks to the runtime that its name begins with."""


def asked_for(request: Recorded) -> str:
    """The text that a request of a runtime is about."""
    return re.findall(r"[a-z]+-[a-z]+-\d+", request.last_user_text)[-1]


def reply(request: Recorded) -> Say:
    return Say("much was said") if is_summary(request) else Say(f"answer to {asked_for(request)}")


class SpeakerProcess:
    """An agent over all its lives."""

    def __init__(self, folder: Path, name: str, token: str, urls: list[str]) -> None:
        self.name, self.journal, self.stop_file = name, folder / f"{name}.journal", folder / "stop"
        module = "tests.e2e.host.hub_kills.speaker"
        paths = map(str, (self.journal, self.stop_file))
        self._command = [sys.executable, "-m", module, name, name.partition("-")[0], *paths, *urls]
        self._env = {"HUB_TOKEN": token}
        self.process = LiveProcess(self._command, self._env)

    def __enter__(self) -> None:
        self.process.__enter__()

    def __exit__(self, *_: object) -> None:
        self.process.__exit__(None, None, None)

    def restart(self) -> None:
        self.process.kill9()
        self.process.__exit__(None, None, None)
        self.process = LiveProcess(self._command, self._env)
        self.process.__enter__()

    def acknowledged(self) -> list[str]:
        """The session, then the ids of what it has said."""
        return [json.loads(line) for line in self.journal.read_text().splitlines()] if self.journal.exists() else []


class HubKillWorld:
    """`urls` are where speakers reach the hubs; a runtime goes to one of them. The first host is the operator's."""

    def __init__(self, folder: Path, ports: list[int], urls: list[str], database: str | None = None) -> None:
        """`urls`: with `http://`, one for each of `ports`."""
        links = [f"{url.replace('http://', 'ws://')}/hub" for url in urls]
        shared = {"MESH_DATABASE_URL": database} if database else {}
        self.hosts = [Host(folder / f"host-{port}", MESH_PORT=port, **shared) for port in ports]
        for host in self.hosts[1:]:
            host.command = [*host.command[:-1], "hub"]
        with ExitStack() as stack:
            for host in self.hosts:
                stack.enter_context(host)
            self.provider = stack.enter_context(ScriptedProvider(reply))
            self.runtimes = [
                stack.enter_context(
                    HubRuntime(self.provider, self.hosts[0], folder / name, name, urls[number % len(urls)])
                )
                for number, name in enumerate(RUNTIMES)
            ]
            for runtime in self.runtimes:
                runtime.wait_joined()
            self.speakers = [
                SpeakerProcess(
                    folder, name, make_member(self.hosts[0], name), links[number % 2 :] + links[: number % 2]
                )
                for number, name in enumerate(SPEAKERS)
            ]
            for speaker in self.speakers:
                stack.enter_context(speaker)
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    def asked(self) -> list[Recorded]:
        """The calls of the model for answers; a long session is summed up as well."""
        return [request for request in self.provider.completions if not is_summary(request)]

    def said(self) -> int:
        """How much was acknowledged so far."""
        return sum(len(speaker.acknowledged()) for speaker in self.speakers)

    def finish(self) -> None:
        """Wait until all that was said is answered."""
        self.speakers[0].stop_file.touch()
        for speaker in self.speakers:
            assert speaker.process.wait(5 * PATIENCE) == 0, speaker.process.output()[-2000:]

    def log(self, session_id: str) -> list[dict[str, Any]]:
        """The whole log of a session, as the operator reads it."""
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page = self.hosts[0].operator.get(f"/hub/sessions/{session_id}/log", params={"after": after, "limit": 500})
            found += page.json()["envelopes"]
            after = page.json()["next"]
        return found


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]
