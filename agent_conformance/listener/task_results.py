"""Rules for listeners that take results of tasks which they did not give."""

from __future__ import annotations

import uuid

from agent_testing.channel import Frame, is_ctl

from ..guest import TesterGuest
from ..rules import ConformanceRules, NotApplicable, RuleBroken

TASK_RESULTS: ConformanceRules[TesterGuest] = ConformanceRules()


@TASK_RESULTS.rule("L46", "2.3", "A welcome takes results of tasks only from an agent that offers them.")
async def takes_only_what_is_offered(guest: TesterGuest) -> str:
    attachment = await guest.ensure_attachment(ctl=True)
    if (attachment.welcome or {}).get("task_results"):
        raise RuleBroken("welcome has task_results, and the agent has not offered any")
    return "not taken"


@TASK_RESULTS.rule("L47", "2.7", "A result of a task is acknowledged, and again when it comes again.")
async def acknowledges_every_report(guest: TesterGuest) -> str:
    task_id = f"task-{uuid.uuid4().hex[:12]}"
    guest.offers_task_results = True
    try:
        for _ in range(2):
            attachment = await guest.attach()
            if not (attachment.welcome or {}).get("task_results"):
                raise NotApplicable("the listener takes no results of tasks")
            await attachment.link.send(_report(task_id))
            await attachment.link.expect(
                f"a task_ack of {task_id}",
                lambda frame: (
                    is_ctl(frame, "task_ack") and (frame.get("task_id"), frame.get("user")) == (task_id, "ann")
                ),
                guest.options.timeout,
            )
    finally:
        guest.offers_task_results = False
        await guest.drop()
    return "twice"


def _report(task_id: str) -> Frame:
    result = {"task_id": task_id, "status": "complete", "result": {"text": "pong"}}
    return {"ctl": "task_result", "task_id": task_id, "user": "ann", "finished_at": 1_800_000_000_000, "result": result}
