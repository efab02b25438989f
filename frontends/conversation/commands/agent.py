"""Commands about the agent: how it stands, which one answers, with which model, what it costs, its files."""

from __future__ import annotations

from pathlib import PurePosixPath

from agent_client import NotFound, UnexpectedReply
from agent_common.protocol import SessionDetail

from ...platform import Piece
from ...store import add_post_in, begin_session_in, choose_agent_in, choose_model_in
from ..context import key_of
from ..messages import without_hint
from ..words import code, plain
from .command import Call

MAX_LISTED = 40
_STATES = {
    "idle": "nothing runs",
    "busy": "works",
    "retrying": "asks the model again",
    "waiting_on_approval": "waits for a decision",
    "waiting_on_user_input": "waits for an answer",
    "error": "the last turn failed",
}


async def _session(call: Call) -> SessionDetail | None:
    try:
        return await call.agent.sessions.get(call.chat.session)
    except NotFound:
        return None


async def status(call: Call) -> None:
    """Show how the agent and the conversation stand."""
    agent = await call.agent.status()
    session = await _session(call)
    lines = [
        f"- **Agent**: {plain(call.context.workspace(call.chat), 60)}, {plain(agent.state, 40)}",
        f"- **Model**: {plain(call.chat.model or (session.model if session else agent.model) or '?', 80)}",
    ]
    if session is None:
        lines.append("- **Conversation**: a new one")
    else:
        lines.append(
            f"- **Conversation**: {plain(without_hint(session.title) or call.chat.session, 80)},"
            f" {_STATES.get(session.status.state, session.status.state)}"
        )
        if session.queue:
            lines.append(f"- **Queue**: {len(session.queue)}")
        if session.context_tokens is not None and agent.context_max:
            lines.append(f"- **Window**: {session.context_tokens * 100 // agent.context_max} %")
    await call.context.tell(call.update, "\n".join(lines))


async def cost(call: Call) -> None:
    """Show what the conversation has used."""
    session = await _session(call)
    if session is None:
        await call.context.tell(call.update, "Nothing yet: the conversation is a new one.")
        return
    price = "of an unknown price" if session.cost_usd is None else f"{session.cost_usd:.4f} US dollars"
    tokens = session.usage
    cached = f", {tokens.cache_read} of them from the cache" if tokens.cache_read else ""
    text = f"{session.total_tokens} tokens: {tokens.input + tokens.cache_read + tokens.cache_write} in{cached}"
    await call.context.tell(call.update, f"💰 {price}\n\n{text}, {tokens.output + tokens.reasoning} out.")


async def model(call: Call) -> None:
    """Show the models, or choose one for the conversation."""
    models = (await call.agent.capabilities()).models
    it = call.context
    chat = call.update.chat.id
    if not call.argument:
        names = ", ".join(code(one) for one in models[:MAX_LISTED]) or "(the agent names none)"
        await it.tell(call.update, f"Now: {code(call.chat.model or 'that of the agent')}\n\n`/model NAME`: {names}")
    elif call.argument not in models:
        await it.tell(call.update, f"There is no model {code(call.argument)}. /model lists them.")
    else:
        await it.finish(
            call.update,
            lambda c: choose_model_in(c, it.bot.name, chat, call.argument),
            f"{code(call.argument)} answers from the next message on.",
        )


async def agent(call: Call) -> None:
    """Show the agents, or choose the one that answers: a workspace, or one of the agents in it."""
    it = call.context
    chat = call.update.chat.id
    workspaces = call.context.bot.workspaces
    if call.argument in workspaces and call.argument != it.workspace(call.chat):
        await it.finish(
            call.update,
            lambda c: begin_session_in(c, it.bot.name, chat, workspace=call.argument),
            f"{code(call.argument)} answers now, in a new conversation.",
        )
        return
    agents = [card.name for card in (await call.agent.capabilities()).agents]
    if call.argument in agents:
        await it.finish(
            call.update,
            lambda c: choose_agent_in(c, it.bot.name, chat, call.argument),
            f"{code(call.argument)} answers from the next message on.",
        )
        return
    names = ", ".join(code(one) for one in (*workspaces, *agents)[:MAX_LISTED])
    is_unknown = call.argument and call.argument not in workspaces
    unknown = f"There is no agent {code(call.argument)}.\n\n" if is_unknown else ""
    here = code(it.workspace(call.chat)) + (f", {code(call.chat.agent)}" if call.chat.agent else "")
    await it.tell(call.update, f"{unknown}Now: {here}\n\n`/agent NAME`: {names}")


async def files(call: Call) -> None:
    """List a folder of the workspace, or send a file of it."""
    path = call.argument.strip("/")
    if path:
        try:
            found = await call.agent.files.stat(path)
        except NotFound:
            await call.context.tell(call.update, f"There is no {code(path)} in the workspace.")
            return
        except UnexpectedReply:  # a folder
            pass
        else:
            await _send_file(call, path, found.size)
            return
    lines: list[str] = []
    async for entry in call.agent.files.list(path):
        if len(lines) == MAX_LISTED:
            lines.append("- …")
            break
        lines.append(f"- {code(entry.name, 80)}" + ("/" if entry.type == "folder" else ""))
    text = "\n".join(lines) or "The folder is empty."
    await call.context.tell(
        call.update, f"📂 {code(path or 'workspace', 100)}\n\n{text}\n\n`/files PATH` sends a file."
    )


async def _send_file(call: Call, path: str, size: int) -> None:
    it = call.context
    update = call.update
    limit = it.bot.platform.limits.upload_bytes
    if size > limit:
        await it.tell(update, f"{code(path)} is too large for this chat: {size} bytes, at most {limit}.")
        return
    if not size:  # Telegram takes no empty file
        await it.tell(update, f"{code(path)} is empty, so there is nothing to send.")
        return
    file = (PurePosixPath(path).name, await call.agent.files.read(path))
    now = it.clock.now_ms()
    key = key_of(it.bot.name, update.id, "file")
    await it.finish(update, lambda c: add_post_in(c, it.bot.name, update.chat.id, key, [Piece("")], file=file, now=now))
