"""Bodies of the routes. FastAPI needs complete models, and those of the protocol are completed at their first use."""

from __future__ import annotations

from pydantic import ConfigDict

from agent_common.protocol import AskPeer, HandOff, PeerCard


class CardBody(PeerCard):
    """Body of `POST /agents`."""

    model_config = ConfigDict(defer_build=False)


class AskBody(AskPeer):
    """Body of `POST /agents/{id}/ask`."""

    model_config = ConfigDict(defer_build=False)


class HandOffBody(HandOff):
    """Body of `POST /agents/{id}/hand-off`."""

    model_config = ConfigDict(defer_build=False)
