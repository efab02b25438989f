"""Rules for hubs: who sees a task, who says how far it has come, and how it is over."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from agent_common.protocol.hub import EV_TASK_CANCEL_REQUEST, EV_TASK_CANCELLED, EV_TASK_EXPIRED
from agent_testing.channel import Frame

from ..rules import ConformanceRules, RuleBroken
from .agent import TesterAgent, expect_refusal
from .agents import TesterAgents

TASKS: ConformanceRules[TesterAgents] = ConformanceRules()
_SOON = 0.3
"""Seconds after which a task is over."""


@TASKS.rule("H83", "Tasks", "A task of a session is seen by all who take part, and by nobody else.")
async def visibility(agents: TesterAgents) -> str:
    alice, bob, carol = await agents.members(3)
    session_id = await agents.open(alice, bob)
    task_id = await _show(alice, session_id)
    for one in (alice, bob):
        await _check(one, task_id, owner_id=alice.agent_id, session_id=session_id, state="created")
        page = await one.ask_own("list_tasks", session_id=session_id)
        if (listed := [task["task_id"] for task in page["tasks"]]) != [task_id]:
            raise RuleBroken(f"{one.name} is shown the tasks {listed}")
    await expect_refusal("get_task of an outsider", carol.ask_own("get_task", task_id=task_id), "not_found")
    asked = carol.ask_own("list_tasks", session_id=session_id)
    await expect_refusal("list_tasks of an outsider", asked, "access_denied", "not_found")
    return "not_found for the outsider"


@TASKS.rule("H84", "Tasks", "Only its owner says how far a task has come, keeps a checkpoint and reads it.")
async def owner(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    task_id = await _show(alice, session_id)
    await alice.ask_own("update_task", task_id=task_id, progress={"done": 1})
    await alice.ask_own("checkpoint_task", task_id=task_id, value=[1, "two", None])
    for op, params in (
        ("update_task", {"progress": {"done": 2}}),
        ("checkpoint_task", {"value": "another"}),
        ("read_task_checkpoint", {}),
    ):
        await expect_refusal(f"{op} of another", bob.ask_own(op, task_id=task_id, **params), "access_denied")
    await _check(bob, task_id, state="running", progress={"done": 1})
    if (value := await alice.ask_own("read_task_checkpoint", task_id=task_id)) != [1, "two", None]:
        raise RuleBroken(f"the checkpoint is {value}")
    return "access_denied for the other"


@TASKS.rule("H85", "Tasks", "A task that is over stays as it is; the update that has ended it may come again.")
async def final(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    task_id = await _show(alice, session_id)
    for _ in range(2):
        await alice.ask_own("update_task", task_id=task_id, state="completed", result={"total": 7})
    for change in ({"state": "failed"}, {"progress": "more"}):
        asked = alice.ask_own("update_task", task_id=task_id, **change)
        await expect_refusal(f"{change} then", asked, "protocol_error")
    await alice.ask_own("cancel_task", task_id=task_id)
    await _check(bob, task_id, state="completed", result={"total": 7}, progress=None)
    return "completed"


@TASKS.rule("H86", "Tasks", "Another participant only asks for the end of a task; its owner ends it.")
async def cancel(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    task_id = await _show(alice, session_id)
    await bob.ask_own("cancel_task", task_id=task_id, reason="not needed")
    await _check(alice, task_id, state="created", cancel_requested_by=[bob.agent_id])
    asked = await alice.take(session_id, EV_TASK_CANCEL_REQUEST)
    expected = {"task_id": task_id, "reason": "not needed", "requested_by": bob.agent_id}
    if (data := asked["envelope"]["event_data"]) != expected:
        raise RuleBroken(f"the owner is told {data}")
    await alice.ask_own("cancel_task", task_id=task_id, reason="as you wish")
    await bob.take(session_id, EV_TASK_CANCELLED)
    await _check(bob, task_id, state="cancelled")
    return "asked, then cancelled"


@TASKS.rule("H87", "Tasks", "A task expires when its time is over, or its session.")
async def expiry(agents: TesterAgents) -> str:
    alice, bob, session_id = await agents.open_pair()
    soon = await _show(alice, session_id, ttl=_SOON)
    later = await _show(alice, session_id)
    await bob.take(session_id, EV_TASK_EXPIRED)
    await _check(bob, soon, state="expired")
    await _check(bob, later, state="created")
    await alice.ask_own("close", session_id=session_id)
    await _check(bob, later, state="expired")
    return "both"


async def _show(agent: TesterAgent, session_id: str, **params: Any) -> str:
    """Show a new task in a session; return its id."""
    task_id = f"conformance-{uuid4().hex}"
    await agent.ask_own("observe_task", task_id=task_id, spec={"title": "tested"}, session_id=session_id, **params)
    return task_id


async def _check(agent: TesterAgent, task_id: str, **expected: Any) -> None:
    """Raise RuleBroken unless the agent is shown a task that has these fields."""
    task: Frame = await agent.ask_own("get_task", task_id=task_id)
    if (seen := {name: task.get(name) for name in expected}) != expected:
        raise RuleBroken(f"{agent.name} is shown {seen}, not {expected}")
