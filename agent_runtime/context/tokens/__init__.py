"""Count what conversations cost in tokens: the last report, and an estimate of what came since.

`TokenCalibration` learns about one model, `ContextUsage` measures one conversation with it. Tokens are counted exactly
only before a message is refused (`too_long`). See docs/explanation/context.md#how-tokens-are-counted.
"""

from .calibration import TokenCalibration, TokenCalibrations
from .context_usage import ContextUsage
from .fits import too_long
from .models import EncodingName, encoding_of

__all__ = [
    "ContextUsage",
    "EncodingName",
    "TokenCalibration",
    "TokenCalibrations",
    "encoding_of",
    "too_long",
]
