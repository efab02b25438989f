"""Whether a request fits into a window, decided so that nothing is refused that may fit."""

from __future__ import annotations

from collections.abc import Sequence

from .calibration import TokenCalibration
from .context_usage import ContextUsage
from .exact import ExactCounter

SURE_SHARE = 0.75
"""Of the window: what is estimated to take less fits, for estimates are up to a quarter too low."""


async def too_long(
    calibration: TokenCalibration, messages: Sequence[bytes], tools: bytes | None, limit: int
) -> tuple[int, int] | None:
    """Tokens of the messages behind the prompt, and those that prompt and tools leave of the window; none where they
    fit, or where nothing would. Counted and not estimated near the edge; of a model whose encoding is not known as the
    lesser of its estimate and a count in another encoding, so that nothing is refused that may fit."""
    gauge = ContextUsage(calibration)
    estimated = gauge.occupancy(messages, tools)
    if estimated <= limit * SURE_SHARE:
        return None
    exact = ExactCounter(calibration.encoding or "o200k_base")
    fixed = await exact.count_request(messages[:1], tools)
    whole = fixed + await exact.count_messages(messages, 1)
    if calibration.encoding is None:
        whole = min(whole, estimated)
    return (whole - fixed, limit - fixed) if fixed < limit < whole else None
