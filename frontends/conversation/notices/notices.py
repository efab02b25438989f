"""Which events of the host are worth a notice, and its words: pure."""

from __future__ import annotations

from agent_client import AgentEvent
from agent_common.protocol import MAX_NOTICE, NOTICE_EVENT

from ..words import one_line, plain

BUDGET_EVENTS = ("budget-warning", "budget-exhausted")
_FAILED_WORK = {"dead": "has failed", "expired": "was not begun in time"}


def notice_of(event: AgentEvent) -> str | None:
    """Return the message for the person to whom the agent has something to say, or whose turn, task or work has failed,
    or for those who look after an agent whose budget is nearly or fully used; None for other events."""
    data = event.data
    where = plain(str(event.data.get("workspace", "")), 60)
    if event.type == NOTICE_EVENT:
        return f"🔔 {where}: {plain(str(data.get('text', '')), MAX_NOTICE)}"
    if event.type == "turn-finished" and data.get("reason") == "error":
        if task := data.get("task_id"):
            return f"⚠️ The task {plain(str(task), 80)} of {where} has failed."
        return f"⚠️ A turn of {where} has failed, in the conversation {plain(str(data.get('session_id', '')), 80)}."
    if event.type == "work-changed" and (words := _FAILED_WORK.get(str(data.get("status")))):
        reason = f": {plain(str(data['error']), 200)}" if data.get("error") else "."
        return f"⚠️ The work {plain(str(data.get('request_id', '')), 80)} of {where} {words}{reason}"
    if event.type in BUDGET_EVENTS and where:
        whose = plain(str(data.get("scope", "")).removeprefix("agent:"), 210)
        used = plain(f"{data.get('limit')}, {data.get('spent')} of {data.get('most')}", 210)
        if event.type == "budget-exhausted":
            return f"⛔ The budget of {whose} is used up: {used}."
        return f"⚠️ {plain(str(data.get('percent')), 10)} % of the budget of {whose} are used: {used}."
    return None


def summary_of(event: AgentEvent) -> str | None:
    """Return one line for the operator about what waits for a person or has failed, or a budget that is nearly or fully
    used; None for other events."""
    data = event.data
    where = one_line(str(data.get("workspace", "")), 60)
    user = one_line(str(data.get("user", "")), 60)
    if event.type == "approval-requested":
        what = (
            "A question" if data.get("kind") == "question" else f"An approval of {one_line(str(data.get('tool')), 60)}"
        )
        return f"{what} waits: agent {where}, user {user}"
    if event.type == "turn-finished" and data.get("reason") == "error":
        return f"A turn has failed: agent {where}, user {user}"
    if event.type == "work-changed" and (words := _FAILED_WORK.get(str(data.get("status")))):
        return f"Work {one_line(str(data.get('request_id', '')), 80)} {words}: agent {where}"
    if event.type in BUDGET_EVENTS:
        scope, limit = (one_line(str(data.get(name, "")), 210) for name in ("scope", "limit"))
        used = f"{data.get('spent')} of {data.get('most')}"
        return f"{data.get('percent')} % of a budget are used: {scope}, {limit}, {used}"
    return None
