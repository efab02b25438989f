"""The script as the host's demo model takes it."""

from __future__ import annotations

from typing import Any

from agent_host.proxy import DemoMove

from .replay import Action, next_move, read_turn
from .report import is_report_task, report


def play(payload: dict[str, Any]) -> DemoMove | None:
    """Return the next move of the report; None when the request asks for something else."""
    turn = read_turn(payload)
    if not (is_report_task(turn.text) and turn.tools):
        return None
    move = next_move(report(turn), turn)
    return DemoMove(move.text, move.tool, move.arguments) if isinstance(move, Action) else DemoMove(move)
