"""The seam between the proxy and whatever answers for a model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from ..catalog.catalog import Operation


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One model call, as the provider shall see it."""

    operation: Operation
    content: bytes
    """OpenAI's request body as JSON, with the provider's own name for the model. Bytes, and not the values that they
    hold: those take a multiple of the memory, for as long as the call lasts."""
    streamed: bool = False
    idempotency_key: str | None = None
    """Made from the agent's id and its own key; never that key itself."""


@dataclass(frozen=True, slots=True)
class ProviderAnswer:
    """What a provider answers: any status, and the body's bytes as they come."""

    status: int
    headers: Mapping[str, str]
    """Lower-case names."""
    body: AsyncIterator[bytes]


class Provider(Protocol):
    """Answers model calls. Leaving the context of a call ends it, finished or not."""

    def call(self, call: ProviderCall) -> AbstractAsyncContextManager[ProviderAnswer]:
        """Raises ProviderFailed, on entry or while the body is read."""
        ...

    async def close(self) -> None: ...
