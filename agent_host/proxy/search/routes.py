"""The HTTP route of search."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import ConfigDict

from agent_common.protocol import SearchRequest, SearchResults

from ...access import HostCaller, identify
from ...http import JsonRoute
from .service import SearchService

router = APIRouter(route_class=JsonRoute)


class Wanted(SearchRequest):
    """The query and its options."""

    model_config = ConfigDict(defer_build=False)  # FastAPI needs the complete model


@router.post("/v1/search")
async def search(request: Request, wanted: Wanted, caller: Annotated[HostCaller, Depends(identify)]) -> SearchResults:
    """Search the web."""
    search_service: SearchService = request.app.state.search
    return SearchResults(results=list(await search_service.search(caller.agent_id, wanted)))
