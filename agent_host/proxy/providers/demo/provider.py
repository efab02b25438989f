"""The demo model as a provider."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from pydantic_core import from_json, to_json

from agent_common.clock import Clock
from agent_common.json_reader import run_by_size

from .. import wire
from ..base import ProviderAnswer, ProviderCall
from .chat import chat
from .replay import Action, next_move, read_turn
from .report import is_report_task, report
from .vectors import embed


class DemoProvider:
    """Follows a script, needs no network and no key, and says on every answer that it is a demo model."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    @asynccontextmanager
    async def call(self, call: ProviderCall) -> AsyncGenerator[ProviderAnswer]:
        yield await run_by_size(len(call.content), partial(self._answer, call))

    async def close(self) -> None:
        pass

    def _answer(self, call: ProviderCall) -> ProviderAnswer:
        payload: dict[str, Any] = from_json(call.content)
        if call.operation == "embeddings":
            return ProviderAnswer(200, wire.JSON_HEADERS, wire.body_parts([to_json(embed(payload))]))
        move = decide(payload)
        created = self._clock.now_ms() // 1000
        if isinstance(move, str):
            said = wire.make_completion(payload, move, None, created)
        else:
            tool_call = wire.ProviderToolCall(_call_id(payload, move), move.tool, move.arguments)
            said = wire.make_completion(payload, move.text, tool_call, created)
        return wire.to_answer(payload, call.streamed, said)


def decide(payload: dict[str, Any]) -> Action | str:
    """The tool call or the words that the script has for these messages."""
    turn = read_turn(payload)
    script = report(turn) if is_report_task(turn.text) and turn.tools else chat(turn.text)
    return next_move(script, turn)


def _call_id(payload: dict[str, Any], move: Action) -> str:
    """The same for the same conversation, another at every step of it."""
    place = to_json([len(payload["messages"]), payload["messages"][-1], move.tool, move.arguments])
    return f"call_{hashlib.sha256(place).hexdigest()[:24]}"
