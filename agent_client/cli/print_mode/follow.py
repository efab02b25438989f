"""The turn of `agent -p` from its prompt to its end, and its stop at the server when it ends here before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from math import inf
from secrets import token_hex
from typing import TYPE_CHECKING, Literal

from ..answered_by import AnsweredBy
from ..errors import WAITS, CliError, UsageError
from ..latest_session import latest_session
from ..run import Invocation
from .message import whole_message
from .printing import TextPrinter, event_json, explain_end, summary
from .turn import EXIT_CODES, Turn

if TYPE_CHECKING:
    from ... import Agent, ChatStream

Format = Literal["text", "json", "stream"]
STOP_SECONDS = 10.0
"""How long the server is given to accept a turn and to stop it again."""


async def print_mode(
    call: Invocation,
    text: str,
    by: AnsweredBy,
    *,
    session: str | None,
    latest: bool,
    seconds: float | None,
    stream: bool,
) -> int:
    """Carry the turn out and return the exit code. Raises CliError, ClientError."""
    if session and latest:
        raise UsageError("-s and -c name two sessions", "keep one of them")
    if stream and call.output.json:
        raise UsageError("--json and --stream-json are two formats", "keep one of them")
    message = whole_message(text)
    form: Format = "json" if call.output.json else "stream" if stream else "text"
    async with call.agent() as agent:
        chosen = session or (await latest_session(agent) if latest else None)
        if chosen:
            await _check_free(agent, chosen)
        turn = Turn(chosen or f"p-{token_hex(6)}")
        send = partial(
            agent.chat, message, session=turn.session, id=turn.message_id, model=by.model, agent=by.agent, wait=inf
        )
        await _follow_or_stop(agent, turn, send, form, call, seconds)
    if form == "json":
        call.output.document(summary(turn))
    elif form == "text":
        explain_end(turn)
    return EXIT_CODES[turn.status]


async def _check_free(agent: Agent, session: str) -> None:
    """Raises CliError if the session waits for a person, because a message would then wait too."""
    from ... import NotFound

    try:
        status = (await agent.sessions.get(session)).status
    except NotFound:
        return
    if status.state in ("waiting_on_approval", "waiting_on_user_input"):
        raise CliError(f"session {session} waits for a person", "see `agent pending`, and `agent approve`", WAITS)


async def _follow_or_stop(
    agent: Agent, turn: Turn, send: Callable[[], ChatStream], form: Format, call: Invocation, seconds: float | None
) -> None:
    """Follow the turn to its end; if it ends here before, stop it at the server."""
    following = asyncio.create_task(_follow(turn, send, form, call))
    try:
        async with asyncio.timeout(seconds):
            await asyncio.shield(following)
    except TimeoutError:
        if following.done():  # an error of its own, or its end in the same moment
            return following.result()
        turn.timed_out = True
        await _stop(agent, turn, following)
    except (asyncio.CancelledError, BrokenPipeError):
        await _stop(agent, turn, following)
        raise


async def _follow(turn: Turn, send: Callable[[], ChatStream], form: Format, call: Invocation) -> None:
    from ... import Approval, Finished, Question

    printer = TextPrinter(call.output)
    try:
        async with send() as events:
            async for event in events:
                turn.admitted.set()
                if form == "stream":
                    call.output.record(event_json(event))
                elif form == "text":
                    printer.print(event)
                if isinstance(event, Approval | Question):
                    turn.waits_for = event
                    break
                if isinstance(event, Finished):
                    turn.reply = event.reply
    finally:
        printer.finish()


async def _stop(agent: Agent, turn: Turn, following: asyncio.Task[None]) -> None:
    """Stop the turn, or take its message out of the queue. One that the server may still accept is waited for."""
    from ... import ClientError, Conflict, NotFound

    try:
        async with asyncio.timeout(STOP_SECONDS):
            admitted = asyncio.create_task(turn.admitted.wait())
            await asyncio.wait((admitted, following), return_when=asyncio.FIRST_COMPLETED)
            admitted.cancel()
            if turn.reply is None and turn.waits_for is None and turn.admitted.is_set():
                try:
                    await agent.unqueue(turn.session, turn.message_id)
                except (Conflict, NotFound):
                    await agent.abort(turn.session)
    except (ClientError, TimeoutError):
        pass  # it cannot be reached, and the turn ends by its own limits
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
