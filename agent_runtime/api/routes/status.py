"""Who the agent is and how it does: `/status`, `/capabilities`, and the probes that need no token."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from agent_common.protocol import AgentStatus, Capabilities, EffectiveLimits, SessionCounts

from ... import __version__
from ...context import definition
from ...errors import MeshUnavailable
from ...settings import DEFAULT_CONTEXT
from ...tools import with_aliases
from ..dependencies import AppState, Services, desk, front
from ..responses import as_json, message

router = APIRouter(tags=["status"])
_MESH = {True: "reachable", False: "unreachable", None: "unknown"}
PROTOCOLS = {"ai-sdk-ui-message-stream": "v1", "agent-runtime": __version__}


@router.get("/healthz")
async def healthz() -> Response:
    """The process answers."""
    return as_json({"status": "ok"})


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Whether this server should get work now, and why not."""
    reasons = list(front(request).reasons())
    return as_json({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)


@router.get("/status")
async def status(request: Request) -> Response:
    """What the agent does right now, answered from memory in any weather."""
    at = front(request)
    return message(_running(at, at.desk, request) if at.desk else _starting(at, request))


@router.get("/capabilities")
async def capabilities(request: Request) -> Response:
    """The agent's card: its tools with their schemas, its skills, its models."""
    at = desk(request)
    specs = with_aliases(at.tools.every())
    try:
        models = [card.id for card in await at.models.models()]
    except MeshUnavailable:
        models = at.models.names()
    packages = await asyncio.to_thread(at.packages.names)
    card = Capabilities(
        agent_id=at.settings.id,
        role=at.settings.role,
        tools=[spec.name for spec in specs],
        tool_definitions=[definition(spec) for spec in specs],
        tool_sources={spec.name: spec.source for spec in specs},
        tool_contracts=dict(at.tools.contracts()),
        agents=at.agents.cards(),
        skills=list(at.tools.skills()),
        mcp_servers=list(at.servers()),
        packages=[{"name": name, "description": description} for name, description in packages],
        models=models,
        protocols=PROTOCOLS,
    )
    return message(card)


def _running(at: AppState, the: Services, request: Request) -> AgentStatus:
    admission, counters = the.hallway.admission, the.counters
    running, queued = admission.turns("running"), admission.turns("queued")
    waiting = admission.turns("waiting")
    tasks = [turn.task_id for turn in running if turn.task_id]
    model = counters.model or at.settings.model
    limit = the.window(model).limit
    found = {
        "state": "draining" if at.draining else "working" if running else "blocked" if waiting else "idle",
        "current_task": tasks[0] if tasks else None,
        "current_tasks": tasks,
        "capabilities": [spec.name for spec in the.tools.every()],
        "tasks_completed": counters.completed,
        "tasks_failed": counters.failed,
        "context_tokens": counters.context_tokens,
        "context_pct": round(100 * counters.context_tokens / limit, 2),
        "last_iteration_ts": counters.last_step_ms,
        "iterations_since_boot": counters.steps,
        "retrying": next((turn.retrying for turn in running if turn.retrying), None),
        "sessions": SessionCounts(running=len(running), queued=len(queued), waiting=len(waiting)),
        "mesh": "refused" if the.models.refused else _MESH[the.models.reachable],
        "cold_models": sorted(the.models.watch.cold),
        "confinement": the.confinement,
    }
    return AgentStatus.model_validate({**_identity(at, request, model, limit), **found})


def _starting(at: AppState, request: Request) -> AgentStatus:
    limit = at.settings.context_limit or DEFAULT_CONTEXT
    return AgentStatus.model_validate({**_identity(at, request, at.settings.model, limit), "state": "starting"})


def _identity(at: AppState, request: Request, model: str, context_limit: int) -> dict[str, object]:
    """What is known from the first moment on."""
    settings = at.settings
    return {
        "agent_id": settings.id,
        "role": settings.role,
        "uptime_seconds": round(request.app.state.clock.monotonic() - at.started_at, 3),
        "model": model,
        "context_max": context_limit,
        "queue_limit": settings.max_queue,
        "channel": at.channel.state if at.channel is not None else "off",
        "version": __version__,
        "limits": EffectiveLimits(
            max_iterations=settings.max_iterations,
            max_rounds=settings.max_rounds,
            max_concurrent_turns=settings.max_concurrent_turns,
            max_queue=settings.max_queue,
            tool_timeout_seconds=settings.tool_timeout,
            context_limit=context_limit,
        ),
    }
