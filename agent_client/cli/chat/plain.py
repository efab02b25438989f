"""The chat without a terminal: a line of input is a message or an answer; events are printed as plain lines."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from queue import SimpleQueue

from agent_common.protocol import how_to_decide

from ... import (
    Agent,
    Approval,
    ChatEvent,
    ChatStream,
    ClientError,
    Finished,
    NotFound,
    NotWaiting,
    Question,
    Started,
    TextDelta,
    TextReplaced,
    ToolCall,
    ToolResult,
)
from ..answered_by import AnsweredBy
from ..errors import ABORTED, DONE, FAILED, WAITS, explain
from ..output import Output, exact_line, safe_json, safe_line
from .approval import decision_of_line
from .blocks import QUESTION, ToolLine
from .commands import is_command
from .conversation import FOLLOW_SECONDS
from .options import ChatOptions
from .questions import answers_of_line, asked

WIDTH = 200


async def run_plain(agent: Agent, session: str, options: ChatOptions) -> int:
    """Follow the turn that is open, then send each line and print its reply, until the input ends or a turn waits.
    Returns the code of the last turn."""
    chat = PlainChat(agent, session, options.by)
    lines = _lines()
    code = await chat.resume(lines)
    if options.message and code != WAITS:
        code = await chat.turn(options.message, lines)
    while code != WAITS and (line := await anext(lines, None)) is not None:
        if line.strip() in ("/quit", "/exit"):
            return code
        if line.strip():
            code = await chat.turn(line, lines)
    return code


class PlainChat:
    """One session in plain lines."""

    def __init__(self, agent: Agent, session: str, by: AnsweredBy) -> None:
        self._agent = agent
        self._session = session
        self._by = by
        self._out = Output()
        self._calls: dict[str, ToolLine] = {}
        self._in_text = False

    async def resume(self, lines: AsyncGenerator[str]) -> int:
        """Print the turn that runs in the session, if any, and answer what it asks from the lines. Returns the exit
        code."""
        try:
            return await self._follow(self._agent.watch(self._session, wait=FOLLOW_SECONDS), lines, resumed=True)
        except NotFound:  # nothing has run in it yet
            return DONE
        except ClientError as error:
            self._line(f"error: {explain(error)}")
            return FAILED

    async def turn(self, message: str, lines: AsyncGenerator[str]) -> int:
        """Send a message, print its turn, and answer what it asks from the next lines. Returns the exit code."""
        if is_command(message):
            name = safe_line(message.partition(" ")[0])
            self._out.note(f"{name} was sent as a message: there are commands in a terminal only")
        try:
            by = self._by
            session = self._session
            stream = self._agent.chat(message, session=session, model=by.model, agent=by.agent, wait=FOLLOW_SECONDS)
            return await self._follow(stream, lines)
        except ClientError as error:
            self._line(f"error: {explain(error)}")
            return FAILED

    async def _follow(self, stream: ChatStream, lines: AsyncGenerator[str], *, resumed: bool = False) -> int:
        waiting = set[str]()
        async with stream as events:
            async for event in events:
                self._print(event)
                if resumed and isinstance(event, Started):
                    waiting = await self._waiting(event.message_id)
                if isinstance(event, Approval | Question):
                    if waiting and event.id not in waiting:
                        continue  # it comes before those that wait, so it was answered earlier
                    waiting.clear()
                    if not await self._answer(event, lines):
                        return WAITS
                if isinstance(event, Finished):
                    aborted = event.reply.finish_reason == "abort"
                    return ABORTED if aborted else FAILED if event.reply.failed else DONE
        return DONE

    async def _waiting(self, message_id: str) -> set[str]:
        """Return the ids of what waits for a person now in the turn that answers this message."""
        async with aclosing(self._agent.pending()) as requests:
            return {one.id async for one in requests if one.message_id == message_id}

    async def _answer(self, request: Approval | Question, lines: AsyncGenerator[str]) -> bool:
        """Read the answer. Returns False when the input has ended; the turn then waits."""
        try:
            if isinstance(request, Question):
                await self._agent.answer(request, await self._answers(request, lines))
                return True
            self._line(f"? allow {exact_line(request.tool)} {exact_line(safe_json(request.input))}")
            if request.reason:
                self._line(f"  {exact_line(request.reason)}")
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

    async def _answers(self, request: Question, lines: AsyncGenerator[str]) -> list[list[str]]:
        """Read an answer to each question. Raises StopAsyncIteration when the input has ended."""
        answers: list[list[str]] = []
        for raw in request.questions:
            one = asked(raw)
            self._line(f"? {one.text}")
            for number, (label, about) in enumerate(one.options, 1):
                self._line(f"  {number}. {label}{f': {about}' if about else ''}")
            answers.append(answers_of_line(one, await anext(lines)))
        return answers

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
            case Finished(reply=reply):
                self._end_text()
                if reply.failed and reply.finish_reason != "abort":
                    self._line(f"error: {reply.error or 'the turn failed'}")
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
    loop = asyncio.get_running_loop()
    asked_for = SimpleQueue[asyncio.Future[str]]()

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
