"""The `mediation` block of a workspace, as in microagent.yaml. A declared channel is required and fails closed."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

from agent_common.net import parse_endpoint

from ...errors import InvalidRequest
from ...listener import GUEST_PORT, parse_address


class MediationBlock(BaseModel):
    """The workspace's mediation channel, as its creator declares it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    enabled: bool = True
    """Only true is accepted, because each workspace has a channel."""
    required: bool = True
    """Whether the agent performs no side effects while the channel is down."""
    failClosed: bool | None = Field(default=None)  # noqa: N815  microagent's own name
    """Must equal `required`; None means the value of `required`."""
    port: int = GUEST_PORT
    """The guest's vsock port."""
    target: str | None = Field(default=None, max_length=300)
    """`host:port` on which this host listens for the workspace's agent. None means the address that agents share."""

    @field_validator("enabled")
    @classmethod
    def _enabled(cls, value: bool) -> bool:
        if not value:
            raise ValueError("each workspace has a channel; set required: false if the agent may work without it")
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
        """Return the block. Raises InvalidRequest if `failClosed` contradicts `required`."""
        if self.failClosed not in (None, self.required):
            why = "must equal required: a required channel fails closed, and no other does"
            raise InvalidRequest(f"mediation.failClosed {why}", faults=[("mediation.failClosed", why)])
        return self

    def require_address(self, address: str | None) -> Self:
        """Return the block. Raises InvalidRequest if `target` names another address than the channel has."""
        if self.target is not None and f"tcp://{self.target}" != address:
            why = f"cannot change; its agent connects to {address or 'no address'}"
            raise InvalidRequest(f"mediation.target: {why}", faults=[("mediation.target", why)])
        return self

    def own_address(self, shared: str | None, taken: str | None) -> str | None:
        """Return the workspace's own address, or None if it uses the `shared` one. `taken`: an address set elsewhere.

        Raises InvalidRequest if `target` names a different address than `taken`.
        """
        address = f"tcp://{self.target}" if self.target else None
        if address is None or address == shared:
            return taken
        if taken is not None:
            why = f"its agent connects to {taken}; leave target out"
            raise InvalidRequest(f"mediation.target: {why}", faults=[("mediation.target", why)])
        return str(parse_address(address, "mediation.target"))
