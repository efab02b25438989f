"""Agents of workspaces that report the ends of tasks."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.host.listener.agent import Agent

from .live import Host


def made(host: Host, name: str, **more: Any) -> dict[str, Any]:
    reply = host.operator.post("/workspaces", json={"id": name, "driver": "external", **more})
    assert reply.status_code == 201, reply.text
    return reply.json()


def report(workspace: dict[str, Any], *reports: dict[str, Any]) -> None:
    """The workspace's agent reports the ends of tasks, and has them acknowledged."""

    async def run() -> None:
        async with Agent(workspace["mediation_url"], workspace["id"], workspace["mediation_key"]) as agent:
            agent.ready(detail=f"med/1 win=1 max=1048576 sid={agent.sid} tasks=1")
            agent.welcome = await agent.expect("welcome")
            agent.answer(agent.welcome["challenge"])
            agent.send(ctl="resume", running=[], unacked=[])
            await agent.expect("resume_ok")
            for one in reports:
                result = {"task_id": one["task_id"], "status": "complete", "result": {"of": one["task_id"]}}
                agent.send(**{"ctl": "task_result", "user": "ann", "finished_at": 5, "result": result, **one})
                await agent.expect("task_ack")

    asyncio.run(run())
