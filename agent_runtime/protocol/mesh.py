"""What the model proxy says about its models (`GET /v1/models`)."""

from __future__ import annotations

from pydantic import Field

from .base import Peer


class Pricing(Peer):
    """US dollars per million tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cache_read: float | None = Field(default=None, ge=0)
    """None: as `input`."""
    cache_write: float | None = Field(default=None, ge=0)
    """None: as `input`."""


class ModelCard(Peer):
    """One entry of `/v1/models`. Beyond `id`, a plain OpenAI endpoint gives nothing."""

    id: str
    context_limit: int | None = None
    max_output_tokens: int | None = None
    pricing: Pricing | None = None
    capabilities: list[str] = Field(default_factory=list)


class ModelList(Peer):
    data: list[ModelCard]
