"""Bodies of the routes. FastAPI needs complete models, and those of the protocol are completed at their first use."""

from __future__ import annotations

from pydantic import ConfigDict

from agent_common.protocol import Publish


class MessageBody(Publish):
    """Body of `POST /topics/{name}`."""

    model_config = ConfigDict(defer_build=False)
