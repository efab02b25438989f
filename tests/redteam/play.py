"""One case on one server: the model asks for the tool calls, then the criterion is asked."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import httpx

from agent_testing import Call, Recorded, Say, ScriptedProvider, Step
from tests.pulse import Pulse

from .canaries import Canaries
from .case import Case
from .criteria import PLACES
from .ground import Ground
from .target import Target, eventually, processes

LAST = 4000
"""Characters of the output that are handed on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    category: str
    tries: str
    attempted: bool
    evidence: str
    """Of the breach; empty: it was held."""
    held_bare: str
    seconds: float
    output: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class World:
    """All that is around the servers."""

    ground: Ground
    provider: ScriptedProvider
    canaries: Canaries
    secrets: Mapping[str, str]


class Play:
    """A Scene in the making."""

    def __init__(self, case: Case, target: Target, world: World) -> None:
        self.case, self.target, self.world = case, target, world
        self.name, self.output, self.prompts = case.name, "", ""
        self.seconds, self.ended_at = 0.0, time.monotonic()
        self.pulse: Pulse | None = None

    # what a criterion may look at

    @property
    def secrets(self) -> Mapping[str, str]:
        return self.world.secrets

    @property
    def data(self) -> Path:
        return self.target.data

    @property
    def server_uid(self) -> int:
        return self.target.uid

    def server_works(self) -> bool:
        return self.target.works()

    def heard(self, listener: str) -> str:
        return self.world.canaries.heard(mark(self.case), listener)

    def asked(self, text: str) -> str:
        wanted = text.replace("@MARK@", mark(self.case)).encode()
        for request in self.world.provider.requests:
            head = f"{request.method} {request.path} {dict(request.headers)}"
            if wanted in head.encode():
                return f"the model endpoint got {request.method} {request.path}"
        return ""

    def alive(self) -> list[int]:
        return processes(mark(self.case))

    # what happens

    def run(self) -> Outcome:
        evidence, attempted = "", False
        try:
            self._attack()
            attempted = re.search(self.case.attempted, self.output) is not None
            evidence = self.case.breach(self)
        except Exception:  # noqa: BLE001 - an accident is neither a breach nor held
            attempted, self.output = False, self.output + traceback.format_exc()
        finally:
            self._clean_up()
        case = self.case
        last = self.output[-LAST:]
        return Outcome(
            case.name, case.category, case.tries, attempted, evidence, case.held_bare, round(self.seconds, 2), last
        )

    def _attack(self) -> None:
        started = time.monotonic()
        with Pulse(self.target.url, self.target.token) if self.case.pulse else nullcontext() as self.pulse:
            if self.case.apart == "crash":
                self._crash()
            else:
                self.output = self._turn()
        self.ended_at = time.monotonic()
        self.seconds = self.ended_at - started
        if self.case.apart == "restart":
            self.target.start()
        if self.case.afterwards == "session":
            self.target.chat("hello", f"after-{self.name}")
            self.prompts = "\n".join(
                str(message.get("content"))
                for request in self.world.provider.completions
                for message in request.messages
                if message.get("role") == "system"
            )
        elif self.case.afterwards == "delete":
            self.target.delete(self.name)

    def _turn(self) -> str:
        try:
            reply = self.target.chat(f"case:{self.name}", self.name, self.case.agent)
        except httpx.HTTPError as error:
            return f"no answer: {error}"
        outputs: list[Any] = reply.get("tool_outputs", [reply])
        return "\n".join(_texts(one.get("output", one)) for one in outputs)

    def _crash(self) -> None:
        """The server is killed while the case's processes run."""

        def ask() -> None:
            with suppress(httpx.HTTPError, ValueError):
                self._turn()

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        eventually(lambda: processes(f"{mark(self.case)}-deep"), 8)
        self.target.process.kill9()
        asking.join(10)
        self.output = "tried"

    def _clean_up(self) -> None:
        """What a breach left running ends here."""
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Model:
    """The scripted model: it asks for the calls of the case that the user's message names."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self._cases = {case.name: case for case in cases}
        self.targets: dict[str, Target] = {}
        """On which server each case is played, before it is."""

    def answer(self, request: Recorded) -> Step:
        found = re.fullmatch(r"case:(\S+)", request.last_user_text.strip())
        if found is None:
            return Say("the model has answered")
        case = self._cases[found[1]]
        done = 0
        for message in reversed(request.messages):
            if message.get("role") == "user":
                break
            done += message.get("role") == "assistant"
        if done >= len(case.steps):
            return Say("done")
        target = self.targets[case.name]
        return Say(calls=tuple(_filled(call, case, target) for call in case.steps[done]))


def mark(case: Case) -> str:
    """What the case's processes and messages carry."""
    return f"mark-{case.name}-end"


def _filled(call: Call, case: Case, target: Target) -> Call:
    words = {
        "@DATA@": str(target.data),
        "@WORKSPACE@": str(target.data / "workspace"),
        "@SCRATCHES@": str(target.data / "scratch"),
        "@PID@": str(target.process.pid),
        "@PORT@": target.port,
        "@MODEL@": target.model_url,
        "@MARK@": mark(case),
        **{word: str(place) for word, place in PLACES.items()},
    }
    text = json.dumps(call.arguments)
    for word, value in words.items():
        text = text.replace(word, value)
    return replace(call, arguments=cast("dict[str, Any]", json.loads(text)))


def _texts(value: Any) -> str:
    """All texts in a JSON value, as they are."""
    if isinstance(value, dict):
        return "\n".join(f"{key}: {_texts(one)}" for key, one in cast("dict[str, Any]", value).items())
    if isinstance(value, list):
        return "\n".join(map(_texts, cast("list[Any]", value)))
    return str(value)
