"""Commands about the agent: which one answers, with which model, what it may do, how it is, its files."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.text import Text

from ....chat import duration
from ...errors import CliError
from ...output import safe_line, safe_text
from ..screen import Choice, Menu, size
from ..status_line import agent_now, dollars, model_now
from .table import Chat, say
from .tables import listing, pairs

MAX_FILES = 200
SHOWN_BYTES = 64 * 1024
BAR_CELLS = 30
DEFAULT = "default"
"""The agent of a session that has not begun."""


async def model(chat: Chat, given: str) -> None:
    known = await models(chat)
    now = model_now(chat.watch.known, chat.conversation)
    chosen = given or await _choose(chat, "Which model answers from now on?", [(one, "") for one in known], now)
    if chosen is None:
        return
    if known and chosen not in known:
        raise CliError(f"there is no model {chosen!r}", f"there are: {', '.join(known)}")
    chat.conversation.model = chosen
    chat.transcript.notice(f"From the next message on {chosen} answers.")


async def agent(chat: Chat, given: str) -> None:
    cards = [card for card in (await chat.agent.capabilities()).agents if card.mode in ("primary", "all")]
    rows = [(card.name, card.error or card.description) for card in cards]
    now = agent_now(chat.watch.known, chat.conversation) or DEFAULT
    chosen = given or await _choose(chat, "Which agent answers from now on?", rows, now)
    if chosen is None:
        return
    if chosen not in [name for name, _ in rows]:
        raise CliError(f"there is no agent {chosen!r}", f"there are: {', '.join(name for name, _ in rows)}")
    chat.conversation.manifest = chosen
    chat.transcript.notice(f"From the next message on {chosen} answers.")


async def context(chat: Chat) -> None:
    session = await chat.watch.read_session(chat.conversation.session)
    status = chat.watch.known.status
    tokens = session.context_tokens if session else None
    if status is None or not tokens:
        raise CliError("not known before the next answer of the model")
    share = min(tokens / status.context_max, 1.0) if status.context_max else 0.0
    full = round(BAR_CELLS * share)
    bar = Text.assemble(("█" * full, "accent"), ("░" * (BAR_CELLS - full), "dim"), f"  {100 * share:.0f}%")
    say(chat, Group(bar, Text(f"{tokens:,} of {status.context_max:,} tokens. /compact summarizes.", "dim")))


async def cost(chat: Chat) -> None:
    session = await chat.watch.read_session(chat.conversation.session)
    if session is None:
        raise CliError("the session has cost nothing yet")
    used = session.usage
    say(
        chat,
        pairs(
            [
                ("cost", dollars(session.cost_usd) or "not known"),
                ("without a price", ", ".join(session.unpriced_models)),
                ("input", f"{used.input:,} tokens"),
                ("from cache", f"{used.cache_read:,}" if used.cache_read else None),
                ("into cache", f"{used.cache_write:,}" if used.cache_write else None),
                ("output", f"{used.output:,}"),
                ("reasoning", f"{used.reasoning:,}" if used.reasoning else None),
            ]
        ),
    )


async def files(chat: Chat, given: str) -> None:
    path = given.removeprefix("@").strip("/")
    if path and not given.endswith("/") and not await _is_folder(chat, path):
        shown = await chat.agent.files.read(path, 0, SHOWN_BYTES)
        say(chat, Text(safe_text(shown.decode(errors="replace")).rstrip()))
        return
    rows: list[tuple[str, str]] = []
    async for entry in chat.agent.files.list(path):
        rows.append(
            (entry.name + ("/" if entry.type == "folder" else ""), "" if entry.size is None else size(entry.size))
        )
        if len(rows) == MAX_FILES:
            rows.append(("…", "more"))
            break
    say(chat, listing(rows, "") if rows else Text("The folder is empty.", "dim"))


async def status(chat: Chat) -> None:
    now = await chat.agent.status()
    say(
        chat,
        pairs(
            [
                ("agent", f"{now.agent_id} ({now.role})"),
                ("state", now.state),
                ("session", chat.conversation.session),
                ("model", now.model),
                ("mesh", now.mesh),
                ("channel", now.channel),
                ("confinement", now.confinement),
                (
                    "sessions",
                    f"{now.sessions.running} running, {now.sessions.queued} queued, {now.sessions.waiting} waiting",
                ),
                ("retrying", now.retrying),
                ("up for", duration(now.uptime_seconds)),
                ("version", now.version),
            ]
        ),
    )


async def models(chat: Chat) -> Sequence[str]:
    """Return the names of the models."""
    return (await chat.agent.capabilities()).models


async def agents(chat: Chat) -> Sequence[str]:
    """Return the names of the agents that may answer."""
    return [card.name for card in (await chat.agent.capabilities()).agents if card.mode in ("primary", "all")]


async def _choose(chat: Chat, question: str, rows: Sequence[tuple[str, str]], now: str) -> str | None:
    """Ask for one of the rows; the one that answers now is marked, and Enter keeps it."""
    choices = [Choice(f"{safe_line(name)}{' (now)' * (name == now)}", safe_line(about)) for name, about in rows]
    cursor = next((number for number, (name, _) in enumerate(rows) if name == now), 0)
    menu = Menu(Text(question, "bold"), choices, "Enter chooses · Esc closes", cursor=cursor)
    picked = await chat.screen.choose(menu)
    return rows[picked.numbers[0]][0] if picked is not None else None


async def _is_folder(chat: Chat, path: str) -> bool:
    folder, _, name = path.rpartition("/")
    async for entry in chat.agent.files.list(folder):
        if entry.name == name:
            return entry.type == "folder"
    return False
