"""The models an agent may name, and which provider answers for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_common.protocol import Caching, ModelCard, Pricing

from ...errors import InvalidRequest, NotFound
from ...settings import redacted_url

Operation = Literal["chat", "embeddings"]
Kind = Literal["openai", "demo", "local"]


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """How to reach one provider."""

    name: str
    kind: Kind
    base_url: str = ""
    api_key: str | None = field(default=None, repr=False)
    stream_usage: bool = True
    """Ask for usage in streams; off for endpoints that refuse `stream_options`."""
    set_by: str = ""
    """What an operator sets to give it a key."""

    @property
    def shown_url(self) -> str:
        return redacted_url(self.base_url)


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """One name and what stands behind it. `None` is unknown."""

    name: str
    provider: str
    upstream: str
    """The provider's own name for it."""
    context_limit: int | None = None
    max_output_tokens: int | None = None
    pricing: Pricing | None = None
    capabilities: tuple[str, ...] = ("chat", "tools")
    caching: Caching = "none"

    def card(self) -> dict[str, Any]:
        """Its entry in `/v1/models`: OpenAI's fields and ours."""
        card = ModelCard(
            id=self.name,
            context_limit=self.context_limit,
            max_output_tokens=self.max_output_tokens,
            pricing=self.pricing,
            capabilities=list(self.capabilities),
            upstream=self.upstream,
            caching=self.caching,
        )
        return {"object": "model", "created": 0, "owned_by": self.provider, **card.model_dump(mode="json")}


@dataclass(frozen=True, slots=True)
class HostCatalog:
    """Models and providers by name."""

    models: Mapping[str, CatalogModel]
    providers: Mapping[str, ProviderSpec]

    def resolve(self, name: str, operation: Operation) -> CatalogModel:
        """The model of that name; `default` is `embedding` where that alone embeds.

        Raises NotFound, or InvalidRequest when the model does not offer the operation.
        """
        model = self.find(name)
        if operation == "embeddings" and name == "default" and operation not in model.capabilities:
            # Who names no model wants whatever the host has for the purpose.
            model = self.models.get("embedding", model)
        if operation not in model.capabilities:
            offered = ", ".join(model.capabilities) or "nothing"
            text = f"the model {name!r} does not offer {operation}; it offers {offered}"
            error = InvalidRequest(text, code="unsupported_operation")
            error.status, error.extra = 400, {"param": "model"}
            raise error
        return model

    def find(self, name: str) -> CatalogModel:
        """The model of that name. Raises NotFound."""
        if name not in self.models:
            known = ", ".join(sorted(self.models))
            raise NotFound(f"there is no model {name!r}; there are {known}", code="model_not_found", param="model")
        return self.models[name]

    def used_kinds(self) -> set[Kind]:
        """The kinds of provider that some model needs."""
        return {self.providers[model.provider].kind for model in self.models.values()}
