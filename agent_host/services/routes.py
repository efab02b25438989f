"""`GET /services`: the services that the caller may use."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict

from ..access import HostCaller, identify
from .endpoint import ServiceEndpoint

router = APIRouter()


class OfferedService(BaseModel):
    """A service, without its address and its credential."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    name: str
    methods: list[str]
    paths: list[str]
    """Globs: `*` stands for a part of one segment, `**` for any number of segments."""
    rate: str | None
    """How many calls an agent may make, such as `60 in 60 s`; null: not limited."""


class ServiceList(BaseModel):
    """Answer of `GET /services`, by name."""

    services: list[OfferedService]


@router.get("/services")
async def services(request: Request, caller: Annotated[HostCaller, Depends(identify)]) -> ServiceList:
    """List the services that the caller may use."""
    endpoint: ServiceEndpoint = request.app.state.services
    team = await endpoint.teams.team_of(caller.agent_id)
    known = endpoint.catalog.services
    found = known.values() if caller.is_operator else endpoint.catalog.offered(caller.agent_id, team)
    return ServiceList(
        services=[
            OfferedService(
                name=one.name,
                methods=list(one.methods),
                paths=list(one.paths.shown),
                rate=f"{one.rate.calls} in {one.rate.seconds:g} s" if one.rate else None,
            )
            for one in found
        ]
    )
