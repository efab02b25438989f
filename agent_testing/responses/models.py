"""What OpenAI's models take by this API."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import Refusal

_KNOWN = re.compile(r"(?:gpt-\d|o[134](?:-|$)|chatgpt-)")
_PLAIN = re.compile(r"(?:gpt-[34]|chatgpt|gpt-\d[\d.]*-chat)")
_WITH_PHASES = re.compile(r"gpt-(?:5\.[3-9]|[6-9])")


@dataclass(frozen=True, slots=True)
class ModelRules:
    """What one model takes."""

    reasons: bool
    """Whether it reasons: it takes `reasoning` and no sampling parameters, and its reasoning can be encrypted."""
    has_phases: bool
    """Whether its messages say if they are commentary or the final answer."""
    context: int


def rules_of(model: str) -> ModelRules:
    """Return the rules of a model. Raises Refusal if there is no such model."""
    if _KNOWN.match(model) is None:
        text = f"The requested model '{model}' does not exist."
        raise Refusal(text, "model", "model_not_found")
    reasons = _PLAIN.match(model) is None
    return ModelRules(reasons, _WITH_PHASES.match(model) is not None, 400_000 if reasons else 128_000)
