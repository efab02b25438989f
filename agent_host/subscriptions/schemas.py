"""Bodies of the routes. FastAPI needs complete models, and those of the protocol are completed at their first use."""

from __future__ import annotations

from pydantic import ConfigDict

from agent_common.protocol import Receive, Subscribe


class SubscribeBody(Subscribe):
    """Body of `POST /subscriptions`."""

    model_config = ConfigDict(defer_build=False)


class ReceiveBody(Receive):
    """Body of `POST /subscriptions/deliveries`."""

    model_config = ConfigDict(defer_build=False)
