"""The proxy's HTTP routes: OpenAI's routes for agents, the ledger for the operator."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Query, Request
from starlette.routing import Route

from ..access import identify, require_operator
from ..budgets import DAY_MS
from ..database import HostDatabase
from ..errors import InvalidRequest
from ..http import StrictRoute
from . import search
from .calls.cache_watch import CacheWatch
from .calls.endpoint import ModelEndpoint, ModelProxy
from .calls.fallbacks import CircuitBreaker
from .catalog.catalog import HostCatalog
from .ledger.ledger import ModelCallLedger
from .ledger.report import DIMENSIONS, Dimension, LedgerReport, UsageQuery, read_report

router = APIRouter()
_own = APIRouter(route_class=StrictRoute)
"""Routes that are not OpenAI's, whose clients add parameters of their own."""


def model_routes(proxy: ModelProxy) -> list[Route]:
    """Return the routes for model calls. They are the hot path, so they are plain ASGI apps without FastAPI."""
    return [
        Route("/v1/chat/completions", ModelEndpoint(proxy, "chat"), methods=["POST"]),
        Route("/v1/embeddings", ModelEndpoint(proxy, "embeddings"), methods=["POST"]),
    ]


@router.get("/v1/models", dependencies=[Depends(identify)])
async def models(request: Request) -> dict[str, Any]:
    """List the models that an agent may name, in OpenAI's shape, with limits, prices and capabilities."""
    catalog: HostCatalog = request.app.state.catalog
    return {"object": "list", "data": [model.card() for model in catalog.models.values()]}


@router.get("/v1/models/{name:path}", dependencies=[Depends(identify)])
async def model(request: Request, name: str) -> dict[str, Any]:
    """Read one model."""
    catalog: HostCatalog = request.app.state.catalog
    return catalog.find(name).card()


def _usage_query(
    *,
    by: Annotated[str, Query(description=f"Group the sums by some of {', '.join(DIMENSIONS)}")] = "agent,model",
    agent: Annotated[str | None, Query(description="Only this agent's calls")] = None,
    team: Annotated[str | None, Query(description="Only this team's")] = None,
    user: Annotated[str | None, Query(description="Only this user's")] = None,
    session: Annotated[str | None, Query(description="Only this session's, with those of its subagents")] = None,
    model: Annotated[str | None, Query(description="Only calls of this model")] = None,
    since: Annotated[date | None, Query(description="The first day, in UTC")] = None,
    until: Annotated[date | None, Query(description="The last day, in UTC")] = None,
) -> UsageQuery:
    names = dict.fromkeys(name.strip() for name in by.split(","))
    if unknown := [name for name in names if name not in DIMENSIONS]:
        message = f"{unknown[0]!r} is none of {', '.join(DIMENSIONS)}"
        raise InvalidRequest(f"by: {message}", faults=[("by", message)])
    groups = cast("tuple[Dimension, ...]", tuple(names))
    begin = _midnight(since) if since is not None else None
    end = _midnight(until) + DAY_MS if until is not None else None
    return UsageQuery(groups, agent, team, user, session, model, begin, end)


def _midnight(day: date) -> int:
    return round(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000)


@_own.get("/usage", dependencies=[Depends(require_operator)])
async def usage(
    request: Request,
    query: Annotated[UsageQuery, Depends(_usage_query)],
    limit: Annotated[int, Query(ge=0, le=1000, description="How many recent calls to list")] = 50,
) -> LedgerReport:
    """Report the usage of model calls: sums, by agent and model unless `by` says otherwise, and the latest calls."""
    ledger: ModelCallLedger = request.app.state.ledger
    database: HostDatabase = request.app.state.database
    await ledger.flush()
    report = await database.run(lambda connection: read_report(connection, query, limit))
    breaker: CircuitBreaker = request.app.state.breaker
    resting = {name: round(seconds, 1) for name, seconds in breaker.resting().items()}
    watch: CacheWatch = request.app.state.cache_watch
    return report.model_copy(update={"resting_providers": resting, "cold_models": watch.cold_models})


for _part in (search.router, _own):
    router.routes.extend(_part.routes)
