"""Which updates may end what holds up the others of their chat."""

from __future__ import annotations

from agent_common.protocol import read_typed_decision

from ..platform import Update
from .commands import parse
from .requests import is_press


def is_urgent(update: Update) -> bool:
    """Whether an update is `/stop` or a decision of its sender, pressed or typed. A session that waits for one of these
    may have so many messages in its queue that it takes no other. Buttons that choose a conversation or go back in it
    are not: what was written before them belongs to the conversation before."""
    if update.kind != "message":
        return update.kind == "button" and is_press(update.text)
    if update.forwarded_from is not None:
        return False
    command = parse(update.text)
    return command[0] == "stop" if command is not None else read_typed_decision(update.text) is not None
