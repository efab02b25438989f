"""Decide whether a request fits into a window, so that nothing is refused that may fit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from .calibration import TokenCalibration
from .context_usage import ContextUsage
from .encodings import encoder
from .message_overhead import REPLY, message_tokens
from .models import EncodingName

SURE_SHARE = 0.75
"""Share of the window: a request that is estimated to take less fits, for estimates are up to a quarter too low."""
MIN_TOOLS_SHARE = 0.4
"""Share of the JSON of tools that a model is shown at least: OpenAI's are shown 0.4 to 0.8 of it, by the schemas."""


async def too_long(
    calibration: TokenCalibration, messages: Sequence[bytes], tools: bytes | None, limit: int
) -> tuple[int, int] | None:
    """Return the tokens of the messages after the prompt, and those that prompt and tools leave of the window. None if
    they fit, or if prompt and tools alone do not.

    Near the edge tokens are counted, not estimated. If the model's encoding is not known, the lesser of its estimate
    and a count in `o200k_base` is believed.
    """
    estimated = ContextUsage(calibration).occupancy(messages, tools)
    if estimated <= limit * SURE_SHARE:
        return None
    name = calibration.encoding or "o200k_base"
    fixed, others = await asyncio.to_thread(_count, name, messages, tools)  # loading an encoding takes a while
    whole = fixed + others if calibration.encoding else min(fixed + others, estimated)
    return (whole - fixed, limit - fixed) if fixed < limit < whole else None


def _count(name: EncodingName, messages: Sequence[bytes], tools: bytes | None) -> tuple[int, int]:
    """Count the tokens of prompt and tools, and those of the other messages."""
    count = encoder(name).count
    prompt, *others = (message_tokens(one, count) for one in messages)
    shown = count(tools.decode(errors="replace")) * MIN_TOOLS_SHARE if tools else 0
    return REPLY + prompt + int(shown), sum(others)
