"""What is known of Claude's models: windows, limits, prices, and the form of thinking that each takes.

Sources: https://platform.claude.com/docs/en/about-claude/models/overview and
https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting, November 2026. The catalog overrides it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_common.protocol import Pricing

_VERSION = re.compile(r"claude(?:-[a-z]+)*-(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)", re.IGNORECASE)
"""A version has one number or two, with a dot in names of gateways, and stands before the family up to 3.7. A date has
eight digits."""
_OUTPUT_LIMITS = {(4, 5): 64_000, (3, 7): 64_000, (3, 5): 8192, (3, 0): 4096}
"""Those before 4.6 that do not have 32,000."""
_PRICES = {  # US dollars for a million tokens, input and output
    "claude-fable-5-2": (8, 40),
    "claude-opus-5-5": (4, 20),
    "claude-opus-5": (5, 25),
    "claude-sonnet-5-5": (2, 10),
    "claude-sonnet-5": (2, 10),
    "claude-haiku-4-5": (1, 5),
}


@dataclass(frozen=True, slots=True)
class ClaudeGeneration:
    """What the models of one generation take."""

    adaptive: bool
    """Whether they decide themselves how much to think, by an effort; older ones get a budget of tokens."""
    thinks: bool
    """Whether they think unless told otherwise."""
    forced_tools: bool
    """Whether they take a choice of tools that forces a call."""
    context_limit: int | None
    max_output_tokens: int | None

    @classmethod
    def of(cls, model: str) -> ClaudeGeneration:
        """Return the generation of a model. Of one that is called by this API and is not Claude nothing is known: it is
        asked for no more than it gives by itself."""
        if "claude" not in model.lower():
            return cls(False, False, True, None, None)
        version = _version(model)
        if version >= (4, 6):
            forced_tools = version <= (5, 0) or "haiku" in model.lower()
            return cls(True, version >= (5, 0), forced_tools, 1_000_000, 128_000)
        return cls(False, False, True, 200_000, _OUTPUT_LIMITS.get(version, 32_000))


def _version(model: str) -> tuple[int, int]:
    """Return the version that a name of Claude has; one without counts as new."""
    found = _VERSION.search(model)
    return (int(found[1]), int(found[2] or 0)) if found else (5, 0)


def price_of(model: str) -> Pricing | None:
    """Return the price of a model, or None if it is not known. Reading from the cache costs a tenth, writing 1.25."""
    known = _PRICES.get(re.sub(r"[-@]\d{8}$", "", model))
    if known is None:
        return None
    price_in, price_out = known
    return Pricing(input=price_in, output=price_out, cache_read=price_in * 0.1, cache_write=price_in * 1.25)
