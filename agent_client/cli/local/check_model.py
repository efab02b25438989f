"""Try a provider before it is used: one request for the list of its models, which costs nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from .model_choice import ModelChoice

SECONDS = 15.0
_SHOWN = 5
_ANTHROPIC_VERSION = "2023-06-01"


@dataclass(frozen=True, slots=True)
class ModelFault:
    """What is wrong with a choice, in words."""

    text: str
    certain: bool = True
    """False: it may work all the same."""
    listed: str | None = None
    """A model that the provider lists, where the one of the choice is not."""


async def check_model(choice: ModelChoice) -> ModelFault | None:
    """Return what is wrong with the choice; None if nothing is known to be wrong."""
    import httpx2

    from agent_common.completions import from_response
    from agent_common.net import trusting_tls

    if choice.provider == "demo":
        return None
    headers = {"Authorization": f"Bearer {choice.key}"} if choice.key else {}
    address = f"{choice.base_url}/models"
    if choice.provider == "anthropic":
        headers = {"anthropic-version": _ANTHROPIC_VERSION, **({"x-api-key": choice.key} if choice.key else {})}
        address = f"{choice.base_url.removesuffix('/v1')}/v1/models?limit=1000"
    try:
        async with httpx2.AsyncClient(timeout=SECONDS, verify=trusting_tls(os.environ)) as client:
            answer = await client.get(address, headers=headers)
            if answer.status_code == 404 and choice.provider != "anthropic" and not choice.base_url.endswith("/v1"):
                below = await client.get(f"{choice.base_url}/v1/models", headers=headers)
                if below.is_success:
                    return ModelFault(f"{choice.base_url} has no models, but {choice.base_url}/v1 does: add the /v1")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:
        return ModelFault(f"{choice.base_url} cannot be reached: {error or type(error).__name__}")
    refusal = from_response(answer.status_code, answer.headers, answer.content) if answer.is_client_error else None
    if refusal is not None and (answer.status_code in (401, 403) or refusal.code == "model_auth"):
        why = f"refuses the key ({answer.status_code})" if choice.key else f"wants a key ({answer.status_code})"
        return ModelFault(f"{choice.base_url} {why}")
    if answer.status_code >= 500:
        return ModelFault(f"{choice.base_url} answers {answer.status_code}; it may be down", certain=False)
    return _not_listed(choice, _names(answer)) if answer.is_success else None  # not every endpoint has a list


def _names(answer: Any) -> list[str]:
    from agent_common.json_reader import JsonLimits, read_json

    try:
        return [str(one["id"]) for one in read_json(answer.content, JsonLimits(8 << 20))["data"]]
    except (ValueError, KeyError, TypeError):
        return []


def _not_listed(choice: ModelChoice, names: list[str]) -> ModelFault | None:
    if not names or choice.model in names:
        return None
    close = get_close_matches(choice.model, names, n=_SHOWN, cutoff=0.4) or sorted(names)[:_SHOWN]
    text = f"{choice.base_url} lists no model {choice.model!r}; it has, among others: {', '.join(close)}"
    return ModelFault(text, certain=False, listed=close[0])
