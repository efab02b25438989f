"""The proxy's HTTP routes: OpenAI's routes for agents, the ledger for the operator."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from starlette.routing import Route

from ..access import identify, require_operator
from ..database import HostDatabase
from . import search
from .calls.cache_watch import CacheWatch
from .calls.endpoint import ModelEndpoint, ModelProxy
from .calls.fallbacks import CircuitBreaker
from .catalog.catalog import HostCatalog
from .ledger.ledger import ModelCallLedger
from .ledger.report import LedgerReport, read_report

router = APIRouter()
router.include_router(search.router)


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


@router.get("/usage", dependencies=[Depends(require_operator)])
async def usage(
    request: Request,
    agent: Annotated[str | None, Query(description="Only this agent's calls")] = None,
    limit: Annotated[int, Query(ge=0, le=1000, description="How many recent calls to list")] = 50,
) -> LedgerReport:
    """Report the usage of model calls: sums by agent and model, and the latest calls."""
    ledger: ModelCallLedger = request.app.state.ledger
    database: HostDatabase = request.app.state.database
    await ledger.flush()
    report = await database.run(lambda connection: read_report(connection, agent, limit))
    breaker: CircuitBreaker = request.app.state.breaker
    resting = {name: round(seconds, 1) for name, seconds in breaker.resting().items()}
    watch: CacheWatch = request.app.state.cache_watch
    return report.model_copy(update={"resting_providers": resting, "cold_models": watch.cold_models})
