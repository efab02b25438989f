"""Bodies of the routes. FastAPI needs complete models, and those of the protocol are completed at their first use."""

from __future__ import annotations

from pydantic import ConfigDict

from agent_common.protocol import ClaimRequest, PutEntry


class EntryBody(PutEntry):
    """Body of `PUT /blackboard/{key}`."""

    model_config = ConfigDict(defer_build=False)


class ClaimBody(ClaimRequest):
    """Body of `POST /blackboard/{key}/claim`."""

    model_config = ConfigDict(defer_build=False)
