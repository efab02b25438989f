"""The interface between the proxy and the providers that answer model calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ..catalog.catalog import Operation


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One model call, as it is sent to the provider."""

    operation: Operation
    content: bytes
    """OpenAI's request body as JSON, with the provider's own name for the model. It is kept as bytes, because the
    parsed values take a multiple of the memory during the whole call."""
    streamed: bool = False
    idempotency_key: str | None = None
    """Derived from the agent's id and the agent's key; never the agent's key itself. None if the agent sent none."""
    model: str = ""
    """The provider's own name for the model, as in the content."""
    max_output: int | None = None
    """The most tokens of output that the catalog gives the model; None if unknown."""
    effort: str | None = None
    """How much the catalog has the model think, for requests that do not say."""
    cached: bool = False
    """Whether a provider that wants to be told how far to cache a prompt should be told."""


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """A provider's answer with any status; the body's bytes are read as they arrive."""

    status: int
    headers: Mapping[str, str]
    """Headers, with lower-case names."""
    body: AsyncIterator[bytes]
    key: str | None = field(default=None, repr=False)
    """The host's key for the provider, which some repeat in their errors: it is taken out of a refusal."""


class Provider(Protocol):
    """Answers model calls. Leaving the context of a call ends it, even if it is not finished."""

    def call(self, call: ProviderCall) -> AbstractAsyncContextManager[ProviderAnswer]:
        """Make the call. Raises ProviderFailed on entry, or while the body is read."""
        ...

    async def close(self) -> None: ...
