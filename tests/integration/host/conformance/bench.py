"""Runs of the tester against stubs, sound ones and such as break a rule on purpose."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from agent_common.net import parse_endpoint
from agent_common.protocol.work import SOFT_LINE
from agent_conformance import Finding, Options, TesterGuest, TesterHost, judge_agent, judge_listener
from agent_testing import StubListener

from .agent_mutants import make_agent
from .listener_mutants import make_listener
from .swift import run_swiftly

KEY = b"the key of the workspace"
SOUND = "sound"
LINE = 1 << 16
"""Bytes: lines that are too long are short for it."""
OPTIONS = Options(key=KEY, timeout=3.0, slow="sleep:2", tool="tool", wait=20)


class StubDrive:
    """Hands work to a stub in the same process."""

    def __init__(self, listener: StubListener) -> None:
        self._listener = listener

    async def submit(self, content: str) -> str | None:
        return self._listener.submit(content)

    async def read_record(self, request_id: str) -> dict[str, Any] | None:
        work = self._listener.ledger[request_id]
        return {"status": work.state, "result": work.result.model_dump() if work.result else None}


async def try_agent(
    socket: Path, fault: str = SOUND, *, options: Options = OPTIONS, only: Sequence[str] = (), **agent: Any
) -> list[Finding]:
    """What the tester finds in a stub agent with this fault."""
    url = f"unix:{socket}"
    settings: dict[str, Any] = {
        "key": KEY,
        "constraints": b"be good",
        "backoff": (0.02, 0.5),
        "max_line": LINE if fault != "bad_offer" else SOFT_LINE,  # without an offer the tester cannot know another
        **agent,
    }
    stub = make_agent(url, fault, **settings)
    task, numbers = asyncio.create_task(stub.run()), itertools.count()

    async def post_task() -> None:
        stub.end_task(f"task-{next(numbers)}")

    try:
        return await judge_agent(TesterHost(parse_endpoint(url, listening=True), options, post_task), only)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def try_listener(
    fault: str = SOUND, *, url: str, dialect: Literal["strict", "loose"] = "strict", key: bytes | None = KEY
) -> list[Finding]:
    """What the tester finds in a stub listener with this fault."""
    async with make_listener(url, fault, key=key, dialect=dialect, heartbeat=0.4, max_line=LINE) as listener:
        options = Options(dialect=dialect, key=KEY, timeout=3.0, wait=20, agent_id="stub")
        guest = TesterGuest(parse_endpoint(listener.url), options, StubDrive(listener))
        return await judge_listener(guest)


class Runs:
    """What the tester finds, by fault; each is tried once, when it is asked for first."""

    def __init__(self, judge: Callable[[str, Path], Coroutine[Any, Any, list[Finding]]], folder: Path) -> None:
        self._judge, self._folder = judge, folder
        self._found: dict[str, list[Finding]] = {}

    def __getitem__(self, fault: str) -> list[Finding]:
        if fault not in self._found:
            self._found[fault] = run_swiftly(self._judge(fault, self._folder / f"{len(self._found)}"))
        return self._found[fault]


def try_agents(folder: Path) -> Runs:
    def judge(fault: str, socket: Path) -> Coroutine[Any, Any, list[Finding]]:
        if fault not in ("needs_welcome", "bad_offer"):
            return try_agent(socket, fault)
        return try_agent(socket, fault, options=replace(OPTIONS, key=None), key=None)  # with a key all need one

    return Runs(judge, folder)


def try_listeners(folder: Path) -> Runs:
    return Runs(lambda fault, socket: try_listener(fault, url=f"unix:{socket}"), folder)


def failed(findings: Sequence[Finding]) -> set[str]:
    return {one.id for one in findings if one.state == "failed"}


def skipped(findings: Sequence[Finding]) -> set[str]:
    return {one.id for one in findings if one.state == "skipped"}
