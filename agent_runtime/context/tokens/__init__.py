"""What things cost in tokens: exact where a model's encoding is known, and else estimated and calibrated.

A `Meter` knows one model, a `Gauge` one conversation with it. What an encoding needs is loaded on first use.
"""

from .calibration import Meter, Meters
from .context_usage import Gauge
from .fits import too_long
from .models import EncodingName, encoding_of
from .overflow import Overflow, overflow_of

__all__ = ["EncodingName", "Gauge", "Meter", "Meters", "Overflow", "encoding_of", "overflow_of", "too_long"]
