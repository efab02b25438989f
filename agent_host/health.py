"""Health and readiness of the host for monitoring, and its OpenAPI document for the operator."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from agent_common import __version__
from agent_common.clock import SystemClock

from .access import require_operator
from .hub import Hub
from .listener import Listener
from .proxy import ModelCallLedger

router = APIRouter()


class HostVersion(BaseModel):
    """Which host this is. `now` is in epoch milliseconds."""

    version: str
    now: int


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Answer as long as the process runs."""
    return {"status": "ok"}


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Report whether the host can do its work, with reason codes if it cannot."""
    state = request.app.state
    parts: list[ModelCallLedger | Listener | None] = [getattr(state, name, None) for name in ("ledger", "listener")]
    hub: Hub | None = getattr(state, "hub", None)
    fails = any(part is not None and part.failing for part in parts) or (hub is not None and hub.is_late)
    reasons = ["database_unavailable"] if fails else []
    return JSONResponse({"ready": not reasons, "reasons": reasons}, 503 if reasons else 200)


@router.get("/version", dependencies=[Depends(require_operator)])
async def version_and_time() -> HostVersion:
    """Return the version of the host and its time."""
    return HostVersion(version=__version__, now=SystemClock().now_ms())


@router.get("/openapi.json", dependencies=[Depends(require_operator)], include_in_schema=False)
async def openapi(request: Request) -> dict[str, Any]:
    """Return the routes as an OpenAPI document."""
    return request.app.openapi()
