"""The `mediation` block of a workspace, as microagent.yaml writes it. Declared means required and fail-closed."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agent_common.net import parse_endpoint

from ..errors import InvalidRequest
from ..listener import GUEST_PORT, parse_address


class MediationBlock(BaseModel):
    """How the workspace's channel is to be."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    enabled: bool = True
    """Each workspace has a channel, so only true can be kept."""
    required: bool = True
    """Without the channel nothing that its agent does takes effect."""
    failClosed: bool | None = Field(default=None)  # noqa: N815  microagent's own name
    """The same as `required`, which it follows when it is left out."""
    port: int = GUEST_PORT
    """The guest's vsock port."""
    target: str | None = Field(default=None, max_length=300)
    """`host:port` where this host listens for the workspace's agent; left out, it is where all agents come."""

    @field_validator("enabled")
    @classmethod
    def _enabled(cls, value: bool) -> bool:
        if not value:
            raise ValueError("each workspace has a channel; say required: false for one that may be missing")
        return value

    @field_validator("port")
    @classmethod
    def _port(cls, value: int) -> int:
        if value != GUEST_PORT:
            raise ValueError(f"guests of this host dial {GUEST_PORT}; leave it out")
        return value

    @field_validator("target")
    @classmethod
    def _target(cls, value: str | None) -> str | None:
        if value is not None:
            parse_endpoint(f"tcp://{value}", listening=True)
        return value

    def require_consistent(self) -> Self:
        """Raises InvalidRequest where two fields contradict each other."""
        if self.failClosed not in (None, self.required):
            why = "must be what required is: a required channel fails closed, and no other does"
            raise InvalidRequest(f"mediation.failClosed {why}", faults=[("mediation.failClosed", why)])
        return self

    def own_address(self, shared: str | None, taken: str | None) -> str | None:
        """The address of the workspace's own; none: the `shared` one. `taken` is one that was chosen otherwise. Raises
        InvalidRequest when there would be two."""
        address = f"tcp://{self.target}" if self.target else None
        if address is None or address == shared:
            return taken
        if taken is not None:
            why = f"its agent comes to {taken}; leave the target out"
            raise InvalidRequest(f"mediation.target: {why}", faults=[("mediation.target", why)])
        return str(parse_address(address, "mediation.target"))
