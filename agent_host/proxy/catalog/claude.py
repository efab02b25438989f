"""What is known of Claude's models: windows, limits, prices, and the form of thinking that each takes.

Sources: https://platform.claude.com/docs/en/about-claude/models/overview and
https://platform.claude.com/docs/en/build-with-claude/thinking-troubleshooting, November 2026. The catalog overrides it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent_common.protocol import Pricing

_VERSION = re.compile(r"-(\d{1,2})(?:-(\d{1,2}))?(?=-\d{8}|$|@)")
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
    context_limit: int
    max_output_tokens: int

    @classmethod
    def of(cls, model: str) -> ClaudeGeneration:
        """Return the generation of a model; one without a version counts as new."""
        found = _VERSION.search(model)
        major, minor = (int(found[1]), int(found[2] or 0)) if found else (5, 0)
        if major >= 5 or (major == 4 and minor >= 6):
            return cls(True, major >= 5, 1_000_000, 128_000)
        return cls(False, False, 200_000, 64_000 if (major, minor) == (4, 5) else 32_000)


def price_of(model: str) -> Pricing | None:
    """Return the price of a model, or None if it is not known. Reading from the cache costs a tenth, writing 1.25."""
    known = _PRICES.get(re.sub(r"[-@]\d{8}$", "", model))
    if known is None:
        return None
    price_in, price_out = known
    return Pricing(input=price_in, output=price_out, cache_read=price_in * 0.1, cache_write=price_in * 1.25)
