"""What things cost in tokens: exact where a model's encoding is known, and else estimated and calibrated.

A `Meter` knows one model, a `Gauge` one conversation with it. What an encoding needs is loaded on first use.
"""

from .calibration import TokenCalibration, TokenCalibrations
from .context_usage import ContextUsage
from .fits import too_long
from .models import EncodingName, encoding_of
from .overflow import OverflowReport, overflow_of

__all__ = [
    "ContextUsage",
    "EncodingName",
    "OverflowReport",
    "TokenCalibration",
    "TokenCalibrations",
    "encoding_of",
    "overflow_of",
    "too_long",
]
