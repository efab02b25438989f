"""The chat without a terminal: a line of input is a message or an answer; events are printed as plain lines."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator
from queue import SimpleQueue

from agent_common.protocol import how_to_decide

from ... import (
    Agent,
    Approval,
    ChatEvent,
    ClientError,
    Failed,
    Finished,
    NotWaiting,
    Question,
    TextDelta,
    TextReplaced,
    ToolCall,
    ToolResult,
)
from ..errors import ABORTED, DONE, FAILED, WAITS, explain
from ..output import Output, safe_line
from .approval import decision_of_line
from .blocks import QUESTION, ToolLine
from .conversation import FOLLOW_SECONDS
from .options import ChatOptions
from .questions import answers_of_line, asked

WIDTH = 200


async def run_plain(agent: Agent, session: str, options: ChatOptions) -> int:
    """Send each line and print its reply, until the input ends. Returns the code of the last turn."""
    chat, lines, code = PlainChat(agent, session), _lines(), DONE
    if options.message:
        code = await chat.turn(options.message, lines)
    async for line in lines:
        if line.strip() in ("/quit", "/exit"):
            return code
        if line.strip():
            code = await chat.turn(line, lines)
    return code


class PlainChat:
    """One session in plain lines."""

    def __init__(self, agent: Agent, session: str) -> None:
        self._agent, self._session = agent, session
        self._out = Output()
        self._calls: dict[str, ToolLine] = {}
        self._in_text = False

    async def turn(self, message: str, lines: AsyncGenerator[str]) -> int:
        """Send a message, print its turn, and answer what it asks from the next lines. Returns the exit code."""
        try:
            async with self._agent.chat(message, session=self._session, wait=FOLLOW_SECONDS) as events:
                async for event in events:
                    self._print(event)
                    if isinstance(event, Approval | Question) and not await self._answer(event, lines):
                        return WAITS
                    if isinstance(event, Finished):
                        return {"error": FAILED, "abort": ABORTED}.get(event.reply.finish_reason, DONE)
        except ClientError as error:
            self._line(f"error: {explain(error)}")
            return FAILED
        return DONE

    async def _answer(self, request: Approval | Question, lines: AsyncGenerator[str]) -> bool:
        """Read the answer. Returns False when the input has ended; the turn then waits."""
        try:
            if isinstance(request, Question):
                answers: list[list[str]] = []
                for raw in request.questions:
                    one = asked(raw)
                    self._line(f"? {one.text}")
                    for number, (label, about) in enumerate(one.options, 1):
                        self._line(f"  {number}. {label}{f': {about}' if about else ''}")
                    answers.append(answers_of_line(one, await anext(lines)))
                await self._agent.answer(request, answers)
                return True
            self._line(f"? allow {request.tool} {safe_line(str(request.input))}")
            if request.reason:
                self._line(f"  {request.reason}")
            if request.code is None:  # an agent of an earlier version
                self._line(f"  it waits for `agent approve {request.id}`")
                return False
            while True:
                self._line(f"  {how_to_decide(request.code)}, with a reason behind it if you like:")
                if decided := decision_of_line(request, await anext(lines)):
                    await self._agent.answer(request, decided.word, decided.reason)
                    return True
        except StopAsyncIteration:
            self._line("  it waits for an answer")
            return False
        except NotWaiting:
            return True

    def _print(self, event: ChatEvent) -> None:
        match event:
            case TextDelta(kind="text") | TextReplaced(kind="text"):
                self._out.text(event.text)
                self._in_text = not event.text.endswith("\n")
            case ToolCall():
                self._calls[event.id] = ToolLine(event.id, event.name, event.input)
            case ToolResult() if event.name != QUESTION:
                line = self._calls.pop(event.id, None) or ToolLine(event.id, event.name, None)
                line.result = event
                self._line(line.text(WIDTH).plain)
            case Failed():
                self._line(f"error: {event.message}")
            case Finished():
                self._end_text()
            case _:
                return

    def _line(self, text: str) -> None:
        self._end_text()
        self._out.line(text)

    def _end_text(self) -> None:
        if self._in_text:
            self._out.line()
            self._in_text = False


async def _lines() -> AsyncGenerator[str]:
    """Yield the lines of the input, each read when it is asked for. Nothing waits for the thread that reads them, so
    Ctrl-C ends the chat at once."""
    loop, asked_for = asyncio.get_running_loop(), SimpleQueue[asyncio.Future[str]]()

    def read() -> None:
        with open(sys.stdin.fileno(), encoding="utf-8", errors="replace", closefd=False) as lines:
            while True:
                wanted = asked_for.get()
                line = lines.readline()
                try:
                    loop.call_soon_threadsafe(lambda: wanted.done() or wanted.set_result(line))  # noqa: B023
                except RuntimeError:  # the loop has ended
                    return

    threading.Thread(target=read, name="input", daemon=True).start()
    while True:
        wanted = loop.create_future()
        asked_for.put(wanted)
        if not (line := await wanted):
            return
        yield line.rstrip("\n")
