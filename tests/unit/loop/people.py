"""What tests of waits, steering and resumption share: tools that note their calls, a watchdog that asks, and critical
readers of streams and of what the model was sent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent_runtime.loop import HumanAnswer, Turn
from agent_runtime.ports import ToolContext, ToolSpec
from agent_runtime.sessions import history
from agent_runtime.tools import Tool, ToolGate, ToolRegistry, Verdict
from agent_runtime.tools.agent.question import question_tool
from tests.unit.loop.support import PATIENCE, World

ASK = '{"questions": [{"question": "Which colour?", "options": [{"label": "blue"}, {"label": "red"}]}]}'
TWO = '{"questions": [{"question": "Which colour?"}, {"question": "Which size?", "multi_select": true}]}'


class AskFirst:
    """A watchdog that wants a person's yes for some tools."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = set(names)

    async def check(self, spec: ToolSpec, arguments: Mapping[str, Any], context: ToolContext) -> Verdict:
        return Verdict("ask") if spec.name in self._names else Verdict()


@dataclass
class Hands:
    """Tools that note what they were called with, and may be held still in the middle."""

    ran: list[str] = field(default_factory=list[str])
    gates: dict[str, asyncio.Event] = field(default_factory=dict[str, asyncio.Event])
    entered: asyncio.Event = field(default_factory=asyncio.Event)

    def tool(self, name: str, **more: Any) -> Tool:
        async def run(arguments: Mapping[str, Any], context: ToolContext) -> Any:
            self.ran.append(context.call_id)
            self.entered.set()
            if name in self.gates:
                await self.gates[name].wait()
            return {"did": name, **arguments}

        return Tool(ToolSpec(name, f"does {name}", {"type": "object"}, **more), run)

    def catalog(self, *names: str, ask: Iterable[str] = ()) -> ToolRegistry:
        return ToolRegistry([question_tool(), *map(self.tool, names)], gate=ToolGate(watchdog=AskFirst(ask)))


async def stands(world: World, turn: Turn) -> dict[str, Any]:
    """The session's status as its resource shows it."""
    sessions = world.sessions()
    detail = await sessions.get(turn.session.principal, turn.session.id)
    return detail.status.model_dump(exclude_none=True)


async def waits(turn: Turn) -> Turn:
    """The turn, once it waits for a person."""
    async with asyncio.timeout(PATIENCE):
        await turn.paused_or_ended.wait()
    assert turn.state == "waiting", turn.end.outcome
    return turn


async def answer(world: World, turn: Turn, name: str, *texts: str) -> Turn:
    """A person answers a question of one part."""
    given = HumanAnswer(name, answers=[list(texts)])
    return await world.answers.submit(turn.session.principal, turn.session.id, given)


def approval_of(turn: Turn, call_id: str) -> str:
    """The id of the open approval of a call."""
    [found] = [one.id for one in turn.human_wait.requests.values() if one.call_id == call_id]
    return found


async def decide(world: World, turn: Turn, call_id: str, decision: Any, reason: str | None = None) -> Turn:
    """A person decides on the open approval of a call."""
    given = HumanAnswer(approval_of(turn, call_id), decision=decision, reason=reason)
    return await world.answers.submit(turn.session.principal, turn.session.id, given)


async def stored(world: World, turn: Turn) -> history.Message:
    """The reply as the disk has it."""
    reply = await world.database.read(lambda connection: history.message(connection, turn.request.reply_id))
    assert reply is not None
    return reply


def calls_of(parts: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {part["toolCallId"]: part for part in parts if "toolCallId" in part}


def assert_fit_for_a_provider(sent: Sequence[bytes]) -> list[dict[str, Any]]:
    """What providers insist on: each assistant's calls are answered directly behind it, once each and in order."""
    messages = [json.loads(message) for message in sent]
    assert messages[0]["role"] == "system"
    wanted: list[str] = []
    for message in messages[1:]:
        if message["role"] == "tool":
            assert wanted, f"an answer that nobody asked for: {message}"
            assert message["tool_call_id"] == wanted.pop(0)
            assert json.loads(message["content"])["type"] in ("output", "error")
            continue
        assert not wanted, f"calls without an answer: {wanted}"
        wanted = [call["id"] for call in message.get("tool_calls", ())]
        assert len(set(wanted)) == len(wanted)
        assert message["content"] or wanted
    assert not wanted
    return messages


@dataclass
class Frontend:
    """The AI SDK's reducer: builds a message from a stream, and throws at whatever the SDK would throw at."""

    id: str | None = None
    parts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    ends: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    starts: int = 0
    kinds: list[str] = field(default_factory=list[str])

    def read(self, sse: bytes) -> Frontend:
        """One whole response."""
        self.starts, self.ends, self.kinds = 0, [], []
        active: dict[str, dict[str, Any]] = {}
        payloads = [line.removeprefix("data: ") for line in sse.decode().split("\n") if line.startswith("data: ")]
        assert payloads[-1] == "[DONE]", payloads[-3:]
        assert payloads.count("[DONE]") == 1
        for payload in payloads[:-1]:
            chunk = json.loads(payload)
            self.kinds.append(chunk["type"])
            assert not self.ends, f"behind the end: {chunk}"
            self._take(chunk, active)
        assert self.starts == 1
        assert len(self.ends) == 1
        return self

    def _take(self, chunk: dict[str, Any], active: dict[str, dict[str, Any]]) -> None:
        kind: str = chunk["type"]
        match kind:
            case "start":
                self.starts += 1
                assert self.id in (None, chunk["messageId"])
                self.id = chunk["messageId"]
            case "start-step":
                self.parts.append({"type": "step-start"})
            case "finish-step":
                active.clear()
            case "text-start" | "reasoning-start":
                active[chunk["id"]] = {"type": kind.removesuffix("-start"), "text": "", "state": "streaming"}
                self.parts.append(active[chunk["id"]])
            case "text-delta" | "reasoning-delta":
                active[chunk["id"]]["text"] += chunk["delta"]
            case "text-end" | "reasoning-end":
                active.pop(chunk["id"])["state"] = "done"
            case "finish" | "abort":
                self.ends.append(chunk)
            case "error" | "message-metadata":
                pass
            case _ if kind.startswith("data-"):
                self._data(chunk)
            case _:
                self._tool(chunk, kind)

    def _data(self, chunk: dict[str, Any]) -> None:
        if not chunk.get("transient"):
            part = {key: chunk[key] for key in ("type", "id", "data") if key in chunk}
            known = [
                one for one in self.parts if "id" in part and (one["type"], one.get("id")) == (part["type"], part["id"])
            ]
            if known:
                known[0]["data"] = part["data"]
            else:
                self.parts.append(part)

    def _tool(self, chunk: dict[str, Any], kind: str) -> None:
        part = calls_of(self.parts).get(chunk["toolCallId"])
        if kind in ("tool-input-start", "tool-input-available", "tool-input-error"):
            if part is None:
                part = {"type": f"tool-{chunk['toolName']}", "toolCallId": chunk["toolCallId"]}
                self.parts.append(part)
            states = {"start": "input-streaming", "available": "input-available", "error": "output-error"}
            part["state"] = states[kind.removeprefix("tool-input-")]
            part |= {key: chunk[key] for key in ("input", "errorText", "providerExecuted") if key in chunk}
            return
        assert part is not None, f"no call for {chunk}"
        match kind:
            case "tool-input-delta":
                assert part["state"] == "input-streaming"
            case "tool-approval-request":
                part |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"]}}
            case "tool-output-available":
                part |= {"state": "output-available", "output": chunk["output"]}
            case "tool-output-error":
                part |= {"state": "output-error", "errorText": chunk["errorText"]}
                part |= {key: chunk[key] for key in ("toolMetadata",) if key in chunk}
            case "tool-output-denied":
                part["state"] = "output-denied"
            case _:
                raise AssertionError(f"unknown chunk {chunk}")

    def shown(self) -> list[tuple[Any, ...]]:
        """What a person would see."""
        return [_shown(part) for part in self.parts]


def shown(parts: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The same of recorded parts."""
    return [_shown(part) for part in parts]


def _shown(part: dict[str, Any]) -> tuple[Any, ...]:
    told = ("type", "text", "state", "toolCallId", "input", "output", "errorText", "data")
    return tuple((key, part[key]) for key in told if key in part)


async def heard(turn: Turn, **how: Any) -> bytes:
    """A stream of the turn, to its end."""
    async with asyncio.timeout(PATIENCE):
        return b"".join([piece async for piece in turn.stream.follow(**how)])


@contextlib.contextmanager
def slow_disk(world: World) -> Generator[threading.Event]:
    """Nothing more is written before the event is set; it is at the end."""
    free = threading.Event()
    world.database.write(lambda _: free.wait(PATIENCE))
    try:
        yield free
    finally:
        free.set()
