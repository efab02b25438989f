"""What requests carry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ConfigDict

from agent_common.protocol import Inbound

from .caller import Caller


class Params(Inbound):
    """Parameters of a request."""

    model_config = ConfigDict(strict=False)


class OfAgent(Params):
    """Parameters of what an agent of the link does."""

    agent_id: str


Operation = tuple[type[Params], Callable[[Caller, Any], Awaitable[Any]]]
"""Its parameters, and what it does."""
