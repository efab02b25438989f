"""Watch the prompt caches of providers: how much they read, and models that read nothing although they should."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic_core import to_json

from agent_common.clock import Clock
from agent_common.protocol import Usage

from ..catalog.catalog import CatalogModel

MIN_BYTES = 6 * 1024
"""Shorter beginnings may be under the 1024 tokens from which providers cache."""
WARM_SECONDS = 240.0
"""For as long a beginning is certainly cached; providers promise five minutes."""
COLD_AFTER_MISSES = 5
MOST_PREFIXES = 2048

log = structlog.get_logger(__name__)


_Key = tuple[str, str, bytes]
"""The agent, the model, and what the request begins with."""


def prefix_of(payload: dict[str, Any]) -> bytes | None:
    """Return a digest of what a request begins with, its tools and first message; None if that is short."""
    messages: Any = payload.get("messages") or [None]
    beginning = to_json([payload.get("tools"), messages[0]])
    return hashlib.blake2b(beginning, digest_size=16).digest() if len(beginning) >= MIN_BYTES else None


@dataclass(slots=True)
class CacheWatch:
    """Counts by model since the start of the host. A model is cold after several requests in a row that read nothing,
    although the same agent had sent the same beginning a short while before."""

    clock: Clock
    prompt_tokens: Counter[str] = field(default_factory=Counter[str])
    cached_tokens: Counter[str] = field(default_factory=Counter[str])
    _misses: Counter[str] = field(default_factory=Counter[str])
    _seen: OrderedDict[_Key, float] = field(default_factory=OrderedDict[_Key, float])

    @property
    def cold_models(self) -> list[str]:
        """Models whose cache is never hit, so that every step pays for its whole prompt."""
        return sorted(model for model, misses in self._misses.items() if misses >= COLD_AFTER_MISSES)

    def note(self, agent_id: str, model: CatalogModel, prefix: bytes | None, usage: Usage) -> None:
        """Note what a provider has reported about a call."""
        self.prompt_tokens[model.name] += usage.input + usage.cache_read + usage.cache_write
        self.cached_tokens[model.name] += usage.cache_read
        if prefix is None or model.caching == "none":
            return
        now = self.clock.monotonic()
        key = (agent_id, model.name, prefix)
        before = self._seen.pop(key, None)
        self._seen[key] = now
        if len(self._seen) > MOST_PREFIXES:
            self._seen.popitem(last=False)
        if usage.cache_read:
            self._misses.pop(model.name, None)
        elif before is not None and now - before <= WARM_SECONDS:
            self._misses[model.name] += 1
            if self._misses[model.name] == COLD_AFTER_MISSES:
                log.warning("prompt_cache_never_hit", model=model.name, provider=model.provider)

    def render_metrics(self, resting: Mapping[str, float]) -> str:
        """Return the metrics of models in Prometheus' text format. `resting`: providers that are not asked for now."""
        cold = self.cold_models
        families: list[tuple[str, str, str, dict[str, float]]] = [
            ("model_prompt_tokens_total", "counter", "model", dict(self.prompt_tokens)),
            ("model_cached_tokens_total", "counter", "model", dict(self.cached_tokens)),
            ("model_cache_cold", "gauge", "model", {name: float(name in cold) for name in self.prompt_tokens}),
            ("provider_resting", "gauge", "provider", dict.fromkeys(resting, 1.0)),
        ]
        lines: list[str] = []
        for name, kind, label, values in families:
            full = f"mesh_{name}"
            lines.append(f"# TYPE {full} {kind}")
            lines += [f'{full}{{{label}="{_escaped(one)}"}} {value:.0f}' for one, value in sorted(values.items())]
        return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
