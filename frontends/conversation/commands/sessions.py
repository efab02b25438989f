"""Commands about conversations: begin one, list them, branch one off, take messages back."""

from __future__ import annotations

from agent_client import NotFound, SessionBusy

from ...people import Person
from ...platform import Button, Piece, Update
from ...store import StoredChat, begin_session_in, note_fork_in
from ..context import Context
from ..messages import without_hint
from ..words import one_line, plain
from .command import Call

PREFIX = "s"
MAX_LISTED = 5
"""Each has a row of buttons, and a message has five of them on every platform."""
TITLE_CHARACTERS = 40
_NONE_YET = "There is no conversation yet: write something."
_BUSY = "The agent still works in this conversation. /stop ends that; then try again."
_FORKED_BY = "forked_by"
"""The key of a session's metadata that names the update which made it."""


async def new(call: Call) -> None:
    """Begin a new conversation."""
    name = call.context.bot.name
    chat = call.update.chat.id
    await call.context.finish(
        call.update,
        lambda c: begin_session_in(c, name, chat),
        "🆕 A new conversation. /sessions lists the earlier ones.",
    )


async def sessions(call: Call) -> None:
    """List the latest conversations, with a button for each."""
    rows: list[list[Button]] = []
    async for one in call.agent.sessions.list():
        here = call.chat.session in (one.id, one.alias)
        title = one_line(without_hint(one.title) or one.alias or one.id, TITLE_CHARACTERS)
        rows.append([Button(f"{'▸ ' if here else ''}{title}", f"{PREFIX}:{one.id}")])
        if len(rows) == MAX_LISTED:
            break
    piece = Piece("**Conversations**, the latest first. Press one to go on with it.", rows) if rows else _NONE_YET
    await call.context.tell(call.update, piece)


async def choose(context: Context, update: Update, chat: StoredChat, person: Person) -> None:
    """Go on with the conversation whose button was pressed, if it is one of the chat's own principal."""
    session_id = update.text.partition(":")[2]
    try:
        found = await context.agent(chat, person).sessions.get(session_id)
    except NotFound:
        await context.acknowledge(update, "This conversation does not exist any more.")
        await context.tell(update)
        return
    await context.acknowledge(update)
    name = found.alias or found.id
    title = without_hint(found.title) or name
    await context.finish(
        update,
        lambda c: begin_session_in(c, context.bot.name, update.chat.id, session=name),
        f"▸ Going on with *{plain(title, 100)}*",
    )


async def fork(call: Call) -> None:
    """Branch off a new conversation with all messages of this one, and go on there.

    That the update forks is on disk before the agent is asked: if the process dies before it has noted the new session,
    it finds that by its metadata.
    """
    it = call.context
    update = call.update
    agent = call.agent
    mark = {_FORKED_BY: f"{it.bot.name} {update.id}"}
    made: str | None = None
    if call.chat.forking == update.id:
        async for one in agent.sessions.list():
            if one.metadata.get(_FORKED_BY) == mark[_FORKED_BY]:
                made = one.id
                break
    else:
        await it.database.run(lambda c: note_fork_in(c, it.bot.name, update.chat.id, update.id))
    try:
        made = made or (await agent.sessions.fork(call.chat.session, metadata=mark)).id
    except NotFound:
        await it.tell(update, _NONE_YET)
        return
    except SessionBusy:
        await it.tell(update, _BUSY)
        return
    session = made
    await it.finish(
        update,
        lambda c: begin_session_in(c, it.bot.name, update.chat.id, session=session),
        "🔀 A branch of the conversation: what you write from now on is not in the one before. /sessions leads back.",
    )


async def rewind(call: Call) -> None:
    """Take back the last messages."""
    await call.going_back.rewind(call.update, call.chat, call.person, call.argument)
