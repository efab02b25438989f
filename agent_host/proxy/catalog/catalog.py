"""The models that an agent may name, and the provider of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agent_common.protocol import Caching, ModelCard, Pricing, Profile
from agent_common.redaction import redacted_url

from ...errors import InvalidCall, NotFound

Operation = Literal["chat", "embeddings"]
Kind = Literal["openai", "anthropic", "demo", "local"]
Api = Literal["chat", "responses"]
"""Which of OpenAI's APIs a model is called by: chat completions or responses."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


@dataclass(frozen=True, slots=True)
class ProviderSpec:
    """How to reach one provider."""

    name: str
    kind: Kind
    base_url: str = ""
    api_key: str | None = field(default=None, repr=False)
    stream_usage: bool = True
    """Whether to ask for usage in streams. False for endpoints that refuse `stream_options`."""
    set_by: str = ""
    """The setting by which an operator gives the provider its key, for error messages."""

    @property
    def shown_url(self) -> str:
        return redacted_url(self.base_url)


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A model name that agents may use, and the model that it means. None means unknown."""

    name: str
    provider: str
    upstream: str
    """The provider's own name for the model."""
    context_limit: int | None = None
    max_output_tokens: int | None = None
    pricing: Pricing | None = None
    capabilities: tuple[str, ...] = ("chat", "tools")
    caching: Caching = "none"
    extra_fields: tuple[str, ...] = ()
    """Fields of a call that are passed to the provider beside those of OpenAI's chat."""
    effort: Effort | None = None
    """How much the model thinks about requests that do not say; None leaves it to the provider."""
    api: Api = "chat"
    fallbacks: tuple[str, ...] = ()
    """Names of the models that are asked in this order when this one cannot answer."""
    profile: Profile = field(default_factory=Profile)
    """Ways in which it differs from other models."""

    def card(self) -> dict[str, Any]:
        """Return the entry for `/v1/models`, with OpenAI's fields and ours."""
        card = ModelCard(
            id=self.name,
            context_limit=self.context_limit,
            max_output_tokens=self.max_output_tokens,
            pricing=self.pricing,
            capabilities=list(self.capabilities),
            upstream=self.upstream,
            caching=self.caching,
            owned_by=self.provider,
        )
        profile = self.profile.stated()
        shown = card.model_dump(mode="json", exclude={"profile"}) | ({"profile": profile} if profile else {})
        return {"object": "model", "created": 0, **shown}


@dataclass(frozen=True, slots=True)
class HostCatalog:
    """Models and providers by name."""

    models: Mapping[str, CatalogModel]
    providers: Mapping[str, ProviderSpec]

    def resolve(self, name: str, operation: Operation) -> CatalogModel:
        """Return the model of that name. `default` means `embedding` if the default model cannot embed.

        Raises NotFound, or InvalidRequest if the model does not offer the operation.
        """
        model = self.find(name)
        if operation == "embeddings" and name == "default" and operation not in model.capabilities:
            # A caller that names no specific model gets one that fits the operation.
            model = self.models.get("embedding", model)
        if operation not in model.capabilities:
            offered = ", ".join(model.capabilities) or "nothing"
            text = f"the model {name!r} does not offer {operation}; it offers {offered}"
            raise InvalidCall(text, param="model", code="unsupported_operation")
        return model

    def find(self, name: str) -> CatalogModel:
        """Return the model of that name. Raises NotFound if there is none."""
        if name not in self.models:
            known = ", ".join(sorted(self.models))
            raise NotFound(f"there is no model {name!r}; there are {known}", code="model_not_found", param="model")
        return self.models[name]

    def used_kinds(self) -> set[Kind]:
        """Return the kinds of provider that the models use."""
        return {self.providers[model.provider].kind for model in self.models.values()}
