"""Which model is asked next when one cannot answer, and which providers are left alone for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import structlog
from pydantic_core import from_json, to_json  # noqa: TID251  reads calls that the proxy has checked

from agent_common.clock import Clock

from ..catalog.catalog import CatalogModel, HostCatalog, Operation
from ..providers import ProviderCall
from .other_models import adapt_to_other

FAILURES_UNTIL_REST = 3
"""Outages in a row after which a provider rests."""
SHORTEST_REST = 15.0
LONGEST_REST = 300.0
"""Seconds. The rest doubles each time that the trial after it fails."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call of one model, and whether to hide the usage of its stream from the client."""

    model: CatalogModel
    call: ProviderCall
    hide_usage: bool
    prefix: bytes | None = None
    """A digest of what the request begins with, for the watch over prompt caches."""

    def instead(self, model: CatalogModel, *, stream_usage: bool) -> Attempt:
        """Return the same call of another model. `stream_usage`: whether its provider may be asked for usage."""
        payload: dict[str, Any] = from_json(self.call.content)
        payload["model"] = model.upstream
        if self.call.operation == "chat":
            adapt_to_other(payload, model)
        hide_usage = self.call.streamed and request_usage(payload, stream_usage=stream_usage, hidden=self.hide_usage)
        call = for_model(replace(self.call, content=to_json(payload)), model)
        return Attempt(model, call, hide_usage, self.prefix)


def request_usage(payload: dict[str, Any], *, stream_usage: bool, hidden: bool = False) -> bool:
    """Ask the provider for the usage of a stream, if it may be asked. Returns whether to hide it from the client, who
    has not asked for it. `hidden`: whether the payload's own wish is not the client's."""
    options: dict[str, Any] = payload.pop("stream_options", None) or {}
    asked = bool(options.get("include_usage")) and not hidden
    if stream_usage:
        payload["stream_options"] = {**options, "include_usage": True}
    return stream_usage and not asked


def for_model(call: ProviderCall, model: CatalogModel) -> ProviderCall:
    """Return the call with what the catalog says about the model."""
    cached = model.caching != "none"
    return replace(call, model=model.upstream, max_output=model.max_output_tokens, effort=model.effort, cached=cached)


def candidates(catalog: HostCatalog, model: CatalogModel, operation: Operation) -> list[CatalogModel]:
    """Return the model and its fallbacks that offer the operation. The fallbacks of a fallback do not count."""
    others = [catalog.models[name] for name in model.fallbacks]
    return [model, *(other for other in others if operation in other.capabilities)]


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    rest: float = SHORTEST_REST
    until: float = 0.0
    """Monotonic time at which it is tried again; 0: it does not rest."""


@dataclass(slots=True)
class CircuitBreaker:
    """Counts the outages of each provider. While one rests, its fallbacks are asked at once."""

    clock: Clock
    _circuits: dict[str, _Circuit] = field(default_factory=dict[str, _Circuit])

    def usable(self, models: list[CatalogModel]) -> Iterator[CatalogModel]:
        """Yield the models to ask, in order. The last is asked even if its provider rests, when no other was."""
        asked = 0
        for at, model in enumerate(models):
            if self._may_try(model.provider) or (not asked and at == len(models) - 1):
                asked += 1
                yield model

    def resting(self) -> Mapping[str, float]:
        """Return the providers that rest, and for how many seconds more."""
        now = self.clock.monotonic()
        return {name: one.until - now for name, one in self._circuits.items() if one.until > now}

    def note(self, provider: str, *, outage: bool) -> None:
        """Note how a call of a provider has ended."""
        if not outage:
            if provider in self._circuits and self._circuits.pop(provider).until:
                log.info("provider_is_back", provider=provider)
            return
        circuit = self._circuits.setdefault(provider, _Circuit())
        circuit.failures += 1
        if circuit.failures >= FAILURES_UNTIL_REST:
            if circuit.until:
                circuit.rest = min(circuit.rest * 2, LONGEST_REST)
            circuit.until = self.clock.monotonic() + circuit.rest
            log.warning("provider_rests", provider=provider, failures=circuit.failures, seconds=circuit.rest)

    def _may_try(self, provider: str) -> bool:
        """Whether the provider does not rest. After its rest one call tries it, while others leave it alone."""
        circuit = self._circuits.get(provider)
        if circuit is None or not circuit.until:
            return True
        now = self.clock.monotonic()
        if circuit.until > now:
            return False
        circuit.until = now + circuit.rest
        return True
