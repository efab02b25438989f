"""What the generations of models take, from the API's documentation of each model."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import Refusal

LISTED = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-4-5")
"""Names that the list of models has; any other that begins with `claude-` exists as well."""
_VERSION = re.compile(r"-(\d{1,2})(?:-(\d{1,2}))?(?=-\d{8}|$|@|-)")


@dataclass(frozen=True, slots=True)
class ModelRules:
    """What one model takes."""

    adaptive: bool
    """Whether it takes `thinking: {type: adaptive}`, as those from 4.6 on."""
    budget: bool
    """Whether it takes `thinking: {type: enabled}`, as those before 5."""
    thinks: bool
    """Whether it thinks unless told not to, as those from 5 on."""
    disabled: bool
    """Whether it takes `thinking: {type: disabled}`: not those from 5.1 on, but for Haiku."""
    forced_tools: bool
    """Whether it takes a choice of tools that forces a call: not those from 5.1 on, but for Haiku."""
    prefill: bool
    """Whether the last message may be the beginning of the answer, as before 4.6."""
    context: int
    output: int


def rules_of(model: str) -> ModelRules:
    """Return the rules of a model. Raises Refusal if there is no such model."""
    if not model.startswith("claude-"):
        raise Refusal(f"model: {model}", 404)
    version = _version_of(model)
    new = version >= (4, 6)
    newest = version >= (5, 0)
    lenient = version <= (5, 0) or "haiku" in model
    context, output = (1_000_000, 128_000) if new else (200_000, 64_000)
    return ModelRules(new, not newest, newest, lenient, lenient, not new, context, output)


def _version_of(model: str) -> tuple[int, int]:
    """Return the version that the name says; one that says none is a newest."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (5, 0)
