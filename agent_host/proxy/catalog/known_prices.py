"""Prices and windows of models that the catalog does not give, from the package `genai-prices`.

A model is looked up by the base URL of its provider and its name there: the same name costs something else elsewhere.
The package's list is as old as the package; nothing is fetched.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from agent_common.protocol import Pricing

from .catalog import CatalogModel, ProviderSpec


def with_known_price(model: CatalogModel, spec: ProviderSpec | None) -> CatalogModel:
    """Return the model with the price and the window of the list, where it has none of its own."""
    if spec is None or spec.kind == "demo" or (model.pricing is not None and model.context_limit is not None):
        return model
    if not _is_public_name(urlsplit(spec.base_url).hostname or ""):  # the list takes a third of a second to load
        return model
    pricing, window = _look_up(model.upstream, spec.base_url)
    return replace(model, pricing=model.pricing or pricing, context_limit=model.context_limit or window)


def _is_public_name(host: str) -> bool:
    """Whether it may be the host of a provider, and not a machine nearby or an address."""
    return host.rpartition(".")[2].isalpha() and "." in host


def _look_up(upstream: str, base_url: str) -> tuple[Pricing | None, int | None]:
    from genai_prices import Usage, calc_price

    try:
        found = calc_price(Usage(input_tokens=0, output_tokens=0), upstream, provider_api_url=base_url)
    except LookupError:
        return None, None
    prices = {name: _in_dollars(getattr(found.model_price, f"{name}_mtok", None)) for name in Pricing.model_fields}
    if prices["input"] is None:
        return None, found.model.context_window
    return Pricing.model_validate({**prices, "output": prices["output"] or 0.0}), found.model.context_window


def _in_dollars(price: Any) -> float | None:
    """Return a price per million tokens. Where it rises with the length of the prompt, that of short ones."""
    base: Any = getattr(price, "base", price)
    return None if base is None else float(base)
