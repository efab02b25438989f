"""The agent's identity and state: `/status`, `/capabilities`, and the probes that need no token."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from fastapi.responses import Response

from agent_common.protocol import AgentStatus, Capabilities, EffectiveLimits, ModelFallback, NoQuery, SessionCounts

from ... import __version__
from ...context import tool_definition
from ...errors import MeshUnavailable
from ...settings import DEFAULT_CONTEXT
from ...tools import with_aliases
from ..dependencies import AppState, Services, get_app_state, get_services, parse_query
from ..responses import as_json, model_response

router = APIRouter(tags=["status"])
_MESH = {True: "reachable", False: "unreachable", None: "unknown"}
PROTOCOLS = {"ai-sdk-ui-message-stream": "v1", "agent-runtime": __version__}


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def healthz() -> Response:
    """Report that the process is running."""
    return as_json({"status": "ok"})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Report whether this server should get work now, and if not, why."""
    reasons = list(get_app_state(request).not_ready_reasons())
    return as_json({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)


@router.get("/status")
async def status(request: Request) -> Response:
    """Report the agent's state from memory, without disk or network."""
    parse_query(request, NoQuery)
    return model_response(_status(request))


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Return the agent's state in the text format of Prometheus."""
    ready = not list(get_app_state(request).not_ready_reasons())
    text, kind = await asyncio.to_thread(_render_metrics, _status(request), ready)
    return Response(text, media_type=kind)


def _render_metrics(status: AgentStatus, ready: bool) -> tuple[bytes, str]:
    from ..metrics import CONTENT_TYPE, render_metrics

    return render_metrics(status, ready=ready), CONTENT_TYPE


def _status(request: Request) -> AgentStatus:
    at = get_app_state(request)
    return _running(at, at.services, request) if at.services else _starting(at, request)


@router.get("/capabilities")
async def capabilities(request: Request) -> Response:
    """Return the agent's card: its tools with their schemas, its skills and its models."""
    parse_query(request, NoQuery)
    at = get_services(request)
    specs = with_aliases(at.tools.all_specs())
    try:
        models = [card.id for card in await at.models.models()]
    except MeshUnavailable:
        models = at.models.names()
    catalog = await asyncio.to_thread(at.skill_index.catalog)
    card = Capabilities(
        agent_id=at.settings.id,
        role=at.settings.role,
        tools=[spec.name for spec in specs],
        tool_definitions=[tool_definition(spec) for spec in specs],
        tool_sources={spec.name: spec.source for spec in specs},
        tool_contracts=dict(at.tools.contracts()),
        agents=at.agents.cards(),
        skills=list(at.tools.skills()),
        mcp_servers=list(at.mcp_servers()),
        packages=list(catalog.packages),
        package_faults=list(catalog.faults),
        models=models,
        protocols=PROTOCOLS,
    )
    return model_response(card)


def _running(state: AppState, services: Services, request: Request) -> AgentStatus:
    admission = services.loop.admission
    counters = services.loop.counters
    running = admission.queues.turns("running")
    queued = admission.queues.turns("queued")
    waiting = admission.queues.turns("waiting")
    tasks = [turn.request.task_id for turn in running if turn.request.task_id]
    model = counters.model or state.settings.model
    limit = services.window_of(model).limit
    found = {
        "state": "draining" if state.draining else "working" if running else "blocked" if waiting else "idle",
        "current_task": tasks[0] if tasks else None,
        "current_tasks": tasks,
        "capabilities": [spec.name for spec in services.tools.all_specs()],
        "tasks_completed": counters.completed_tasks,
        "tasks_failed": counters.failed_tasks,
        "context_tokens": counters.context_tokens,
        "context_pct": round(100 * counters.context_tokens / limit, 2),
        "last_iteration_ts": counters.last_step_ms,
        "iterations_since_boot": counters.steps,
        "retrying": next((turn.retry.reason for turn in running if turn.retry.reason), None),
        "sessions": SessionCounts(running=len(running), queued=len(queued), waiting=len(waiting)),
        "mesh": "refused" if services.models.token_refused else _MESH[services.models.reachable],
        "cold_models": sorted(services.models.cache_watch.cold_models),
        "cache_hit_rates": services.models.cache_watch.hit_rates(),
        "fallback": ModelFallback(model=counters.fallback.model, reason=counters.fallback.reason)
        if counters.fallback is not None
        else None,
        "confinement": services.confinement,
        "confinement_fault": services.confinement_fault,
    }
    return AgentStatus.model_validate({**_identity(state, request, model, limit), **found})


def _starting(state: AppState, request: Request) -> AgentStatus:
    limit = state.settings.context_limit or DEFAULT_CONTEXT
    return AgentStatus.model_validate({**_identity(state, request, state.settings.model, limit), "state": "starting"})


def _identity(state: AppState, request: Request, model: str, context_limit: int) -> dict[str, object]:
    """Return the fields that are known from the start."""
    settings = state.settings
    return {
        "agent_id": settings.id,
        "role": settings.role,
        "uptime_seconds": round(request.app.state.clock.monotonic() - state.started_at, 3),
        "model": model,
        "context_max": context_limit,
        "queue_limit": settings.max_queue,
        "channel": state.channel.state if state.channel is not None else "off",
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
