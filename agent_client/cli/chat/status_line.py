"""The line below the input: who answers, with which model, in which session, how full the window is, what it cost."""

from __future__ import annotations

from dataclasses import dataclass

from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.cells import cell_len, set_cell_size

from ..output import safe_line
from .agent_watch import Known
from .conversation import Conversation

DIM = "ansibrightblack"
SEPARATOR = " · "
TITLE_CELLS = 30
FULL = 90.0
NEARLY_FULL = 70.0
FINE_CHANNELS = ("off", "ready", "busy")
"""States of the channel to the host in which work gets through."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the line. Those of the lowest weight are left out where the line is too short."""

    text: str
    weight: int
    style: str = DIM


def status_parts(known: Known, conversation: Conversation, *, online: bool) -> list[Part]:
    """Return what there is to say, from left to right."""
    session = known.session
    status = known.status
    agent = agent_now(known, conversation)
    model = model_now(known, conversation)
    parts = [
        Part(agent, 5, "ansicyan"),
        Part(model if model != agent else "", 4),
        Part(_cut(session.title) if session and session.title else "", 1),
        *context_part(known),
        Part(dollars(session.cost_usd) if session else "", 3),
        Part(f"channel {status.channel}" if status and status.channel not in FINE_CHANNELS else "", 2),
    ]
    if not online:
        parts.insert(0, Part("● connection lost, trying again", 9, "ansired"))
    return [Part(safe_line(part.text), part.weight, part.style) for part in parts if part.text]


def agent_now(known: Known, conversation: Conversation) -> str:
    """Return the agent that answers the next message; "" if the session has not begun and none was chosen."""
    return conversation.manifest or (known.session.agent if known.session else "")


def model_now(known: Known, conversation: Conversation) -> str:
    """Return the model that answers it; empty if it is not known yet."""
    of_agent = known.status.model if known.status else ""
    return conversation.model or (known.session.model if known.session else of_agent)


def context_part(known: Known) -> list[Part]:
    """Return how full the model's window is."""
    tokens = known.session.context_tokens if known.session else None
    if not tokens or known.status is None or known.status.context_max <= 0:
        return []
    percent = 100 * tokens / known.status.context_max
    style = "ansired" if percent >= FULL else "ansiyellow" if percent >= NEARLY_FULL else DIM
    return [Part(f"{percent:.0f}% context", 6, style)]


def dollars(cost: float | None) -> str:
    """Return a cost as people read it: cents where there are some, else more digits."""
    if cost is None:
        return ""
    return f"${cost:.2f}" if cost >= 0.1 or cost == 0 else f"${cost:.4f}"


def drawn_status(parts: list[Part], width: int) -> StyleAndTextTuples:
    """Return the line, without the parts for which there is no space."""
    parts = list(parts)
    while len(parts) > 1 and _cells(parts) > width - 3:
        parts.remove(min(parts, key=lambda part: part.weight))
    line: StyleAndTextTuples = [("", "  ")]
    for number, part in enumerate(parts):
        if number:
            line.append((DIM, SEPARATOR))
        line.append((part.style, part.text))
    return line


def _cells(parts: list[Part]) -> int:
    return sum(cell_len(part.text) for part in parts) + len(SEPARATOR) * (len(parts) - 1)


def _cut(title: str) -> str:
    title = safe_line(title)
    return title if cell_len(title) <= TITLE_CELLS else set_cell_size(title, TITLE_CELLS - 1).rstrip() + "…"
