"""Commands for sessions: a new one, another one, back in this one, a branch of it, a summary of it."""

from __future__ import annotations

from rich.text import Text

from agent_common.protocol import SessionSummary

from ...errors import CliError
from ...output import local_time, safe_line
from ..replay import text_of
from ..screen import Choice, Menu
from ..session_names import checked_session_name, new_session_name
from .table import Chat, say
from .tables import listing

LISTED = 100


async def new(chat: Chat, given: str) -> None:
    await chat.open(checked_session_name(given) if given else new_session_name())
    chat.transcript.notice("A new session begins with the next message.")


async def sessions(chat: Chat) -> None:
    here = chat.conversation.session
    rows = [
        (title_of(one), local_time(one.updated_at), name_of(one), "here" if here in (one.id, one.alias) else "")
        for one in await _listed(chat)
    ]
    say(chat, listing(rows) if rows else Text("There are no sessions.", "dim"))


async def resume(chat: Chat, given: str) -> None:
    if given:
        await chat.open(checked_session_name(given))
        return
    found = await _listed(chat)
    if not found:
        raise CliError("there are no sessions")
    choices = [Choice(title_of(one), local_time(one.updated_at)) for one in found]
    picked = await chat.screen.choose(
        Menu(Text("Continue which session?", "bold"), choices, "Enter opens · Esc closes")
    )
    if picked is not None:
        chosen = found[picked.numbers[0]]
        await chat.open(chosen.id)
        chat.transcript.notice(f"Continuing {title_of(chosen)}.")


async def rewind(chat: Chat) -> None:
    message_id, text = await _pick_message(chat, "Go back to before which message?")
    if message_id is None:
        return
    reply = await chat.agent.sessions.rewind(chat.conversation.session, message_id)
    chat.transcript.notice(f"Went back: {reply.hidden} messages are hidden. /unrewind shows them again.", "warn")
    chat.screen.put(text)


async def unrewind(chat: Chat) -> None:
    reply = await chat.agent.sessions.unrewind(chat.conversation.session)
    chat.transcript.notice(f"{reply.restored} messages are back.")


async def fork(chat: Chat, given: str) -> None:
    made = await chat.agent.sessions.fork(chat.conversation.session, title=given or None)
    await chat.open(made.id)
    chat.transcript.notice(f"A copy of the session: {title_of(made)}.")


async def compact(chat: Chat) -> None:
    if chat.conversation.busy:
        raise CliError("a turn is running", "Esc stops it")
    chat.transcript.notice("Summarizing the conversation …")
    reply = await chat.agent.sessions.compact(chat.conversation.session)
    chat.transcript.notice(f"Summarized: about {reply.tokens_before:,} tokens became {reply.tokens_after:,}.")
    await chat.watch.read_session(chat.conversation.session)


async def title(chat: Chat, given: str) -> None:
    if not given:
        raise CliError("/title needs a title", "/title TEXT")
    await chat.agent.sessions.update(chat.conversation.session, title=given)
    await chat.watch.read_session(chat.conversation.session)


def title_of(session: SessionSummary) -> str:
    return safe_line(session.title or name_of(session))


def name_of(session: SessionSummary) -> str:
    """Return what `agent chat -s` takes."""
    return session.alias or session.id


async def _listed(chat: Chat) -> list[SessionSummary]:
    found: list[SessionSummary] = []
    async for session in chat.agent.sessions.list():
        found.append(session)
        if len(found) == LISTED:
            break
    return found


async def _pick_message(chat: Chat, question: str) -> tuple[str | None, str]:
    if chat.conversation.busy:
        raise CliError("a turn is running", "Esc stops it")
    asked = [one async for one in chat.agent.sessions.messages(chat.conversation.session) if one.role == "user"]
    if not asked:
        raise CliError("the session has no messages")
    choices = [Choice(safe_line(text_of(one)), local_time(one.created_at)) for one in asked]
    menu = Menu(Text(question, "bold"), choices, "Enter chooses · Esc closes", cursor=len(choices) - 1)
    picked = await chat.screen.choose(menu)
    if picked is None:
        return None, ""
    chosen = asked[picked.numbers[0]]
    return chosen.id, text_of(chosen)
