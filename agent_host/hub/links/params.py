"""What requests carry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import ConfigDict, field_validator

from agent_common.protocol import Inbound

from .caller import Caller


class Params(Inbound):
    """Parameters of a request."""

    model_config = ConfigDict(strict=False)

    @field_validator("*")
    @classmethod
    def _refuse_nul(cls, value: Any) -> Any:
        """Not every database takes it as a value to look for."""
        if isinstance(value, str) and "\0" in value:
            raise ValueError("may not contain the character NUL; leave it out")
        return value


class OfAgent(Params):
    """Parameters of what an agent of the link does."""

    agent_id: str


Operation = tuple[type[Params], Callable[[Caller, Any], Awaitable[Any]]]
"""Its parameters, and what it does."""
