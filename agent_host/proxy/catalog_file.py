"""Load the catalog from the YAML file that MESH_MODELS names, or use the built-in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_common.net import checked_bearer
from agent_common.profiles import profile_of
from agent_common.protocol import Caching, Pricing, Profile

from ..errors import StartError
from ..settings import HostSettings
from .catalog import claude
from .catalog.catalog import Api, CatalogModel, Effort, HostCatalog, Kind, ProviderSpec
from .catalog.known_prices import with_known_price
from .catalog.provider_keys import read_key
from .providers import local_model_missing

_DEFAULT_URLS: dict[Kind, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class _Price(Pricing):
    model_config = ConfigDict(extra="forbid")


class _ProfileEntry(Profile):
    model_config = ConfigDict(extra="forbid")


class _ProviderEntry(_Entry):
    kind: Kind = "openai"
    base_url: str | None = Field(default=None, pattern=r"^https?://\S+$")
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    stream_usage: bool = True


class _ModelEntry(_Entry):
    provider: str
    model: str | None = Field(default=None, min_length=1)
    context_limit: int | None = Field(default=None, gt=0)
    max_output_tokens: int | None = Field(default=None, gt=0)
    pricing: _Price | None = None
    api: Api | None = None
    capabilities: list[str] | None = None
    caching: Caching | None = None
    reasoning_effort: Effort | None = None
    extra_fields: list[str] = Field(default_factory=list[str])
    fallbacks: list[str] = Field(default_factory=list)
    profile: _ProfileEntry | None = None


class _File(_Entry):
    providers: dict[str, _ProviderEntry] = Field(default_factory=dict)
    models: dict[str, _ModelEntry] = Field(min_length=1)


def load_catalog(settings: HostSettings) -> HostCatalog:
    """Return the catalog that the settings ask for. Raises StartError with all faults, one a line."""
    builtin = _builtin_providers(settings)
    catalog = _from_file(settings.models, builtin) if settings.models else _builtin(settings, builtin)
    models = {name: with_known_price(one, catalog.providers.get(one.provider)) for name, one in catalog.models.items()}
    catalog = HostCatalog(models, catalog.providers)
    faults = _unusable(catalog)
    if faults:
        raise StartError("\n".join(faults))
    return catalog


# ---------------------------------------------------------------- without a file


def _builtin_providers(settings: HostSettings) -> dict[str, ProviderSpec]:
    openai, anthropic = (
        key.get_secret_value() if key else None for key in (settings.openai_api_key, settings.anthropic_api_key)
    )
    return {
        "openai": ProviderSpec("openai", "openai", settings.openai_base_url, openai, set_by="OPENAI_API_KEY"),
        "anthropic": ProviderSpec(
            "anthropic", "anthropic", settings.anthropic_base_url, anthropic, set_by="ANTHROPIC_API_KEY"
        ),
        "demo": ProviderSpec("demo", "demo"),
        "local": ProviderSpec("local", "local"),
    }


def _builtin(settings: HostSettings, providers: dict[str, ProviderSpec]) -> HostCatalog:
    match settings.builtin_provider:
        case "openai":
            models = [
                CatalogModel(
                    "default",
                    "openai",
                    settings.openai_model,
                    profile=_profile(providers["openai"], settings.openai_model),
                ),
                CatalogModel("embedding", "openai", "text-embedding-3-small", capabilities=("embeddings",)),
            ]
        case "anthropic":
            models = [_claude(CatalogModel("default", "anthropic", settings.anthropic_model))]
        case "demo":
            free = Pricing(input=0, output=0)
            models = [
                CatalogModel("default", "demo", "demo", 128_000, 8_192, free),
                CatalogModel("embedding", "demo", "demo", 8_192, pricing=free, capabilities=("embeddings",)),
            ]
        case "local":
            models = [CatalogModel("default", "local", "SmolLM2-135M-Instruct", 8_192, 512, Pricing(input=0, output=0))]
    return HostCatalog({model.name: model for model in models}, providers)


# ---------------------------------------------------------------- with one


def _from_file(path: Path, builtin: dict[str, ProviderSpec]) -> HostCatalog:
    try:
        content: Any = yaml.safe_load(path.read_text("utf-8"))
        file = _File.model_validate(content)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise StartError(f"MESH_MODELS: cannot read {path}: {error}") from error
    except ValidationError as error:
        faults = [f"MESH_MODELS: {path}: {_where(one['loc'])}: {one['msg']}" for one in error.errors()]
        raise StartError("\n".join(faults)) from None
    named = {name: _provider(name, entry) for name, entry in file.providers.items()}
    providers = {**builtin, **named}
    return HostCatalog({name: _model(name, entry, providers) for name, entry in file.models.items()}, providers)


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "the file"


def _provider(name: str, entry: _ProviderEntry) -> ProviderSpec:
    setting = f"MESH_MODELS: providers.{name}.api_key_env"
    key = read_key(entry.api_key_env) if entry.api_key_env else None
    url = (entry.base_url or _DEFAULT_URLS.get(entry.kind, "")).rstrip("/")
    if entry.api_key_env and key is None:
        raise StartError(f"{setting}: {entry.api_key_env} is not set")
    try:
        key = checked_bearer(key) if key else None
    except ValueError as error:
        raise StartError(f"{setting}: {entry.api_key_env} {error}") from None
    spec = ProviderSpec(name, entry.kind, url, key, entry.stream_usage)
    return replace(spec, set_by=entry.api_key_env or setting)


def _model(name: str, entry: _ModelEntry, providers: Mapping[str, ProviderSpec]) -> CatalogModel:
    spec = providers.get(entry.provider)
    model = CatalogModel(
        name,
        entry.provider,
        entry.model or name,
        entry.context_limit,
        entry.max_output_tokens,
        entry.pricing,
        extra_fields=tuple(entry.extra_fields),
        effort=entry.reasoning_effort,
        api=entry.api or "chat",
        fallbacks=tuple(entry.fallbacks),
        profile=_profile(spec, entry.model or name).updated(entry.profile),
    )
    if spec is not None and spec.kind == "anthropic":
        model = _claude(model)
    elif entry.api == "responses":
        model = replace(model, caching="key")
    capabilities = tuple(entry.capabilities) if entry.capabilities is not None else model.capabilities
    return replace(model, capabilities=capabilities, caching=entry.caching or model.caching)


def _profile(spec: ProviderSpec | None, upstream: str) -> Profile:
    """Return what the table says of a model, with what its provider's entry says."""
    if spec is None or spec.kind != "openai":
        return Profile()
    known = profile_of(spec.base_url, upstream)
    return known if spec.stream_usage else known.updated(Profile(stream_options=False))


# ---------------------------------------------------------------- both


def _claude(model: CatalogModel) -> CatalogModel:
    """Return the model with what is known of it where nothing was said. The host itself marks what Claude caches."""
    known = claude.ClaudeGeneration.of(model.upstream)
    return replace(
        model,
        context_limit=model.context_limit or known.context_limit,
        max_output_tokens=model.max_output_tokens or known.max_output_tokens,
        pricing=model.pricing or claude.price_of(model.upstream),
        capabilities=("chat", "tools", "vision"),
        caching="automatic",
    )


def _unusable(catalog: HostCatalog) -> list[str]:
    """Return the faults of the catalog that would make calls fail on this machine."""
    known = ", ".join(sorted(catalog.providers))
    faults = [
        f"MESH_MODELS: models.{model.name}.provider: there is no provider {model.provider!r}; there are {known}"
        for model in catalog.models.values()
        if model.provider not in catalog.providers
    ]
    names = ", ".join(sorted(catalog.models))
    faults += [
        f"MESH_MODELS: models.{model.name}.fallbacks: there is no other model {other!r}; there are {names}"
        for model in catalog.models.values()
        for other in model.fallbacks
        if other == model.name or other not in catalog.models
    ]
    faults += [
        f"MESH_MODELS: models.{model.name}.api: only providers of the kind openai have the API 'responses'"
        for model in catalog.models.values()
        if model.api == "responses"
        and model.provider in catalog.providers
        and catalog.providers[model.provider].kind != "openai"
    ]
    if faults:
        return faults
    used = {model.provider for model in catalog.models.values()}
    for spec in (catalog.providers[name] for name in sorted(used)):
        if urlsplit(spec.base_url).hostname in ("api.openai.com", "api.anthropic.com") and spec.api_key is None:
            faults.append(f"{spec.set_by}: must be set, {spec.base_url} accepts no call without a key")
        if spec.base_url.endswith("/chat/completions"):
            hint = "OPENAI_BASE_URL" if spec.name == "openai" else f"MESH_MODELS: providers.{spec.name}.base_url"
            faults.append(f"{hint}: must end before /chat/completions, which is added to it")
    if "local" in catalog.used_kinds() and (missing := local_model_missing()):
        faults.append(missing)
    return faults
