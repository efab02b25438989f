"""Whatever answers for a model, behind one Protocol."""

from .base import Answer, Call, Provider
from .registry import Providers

__all__ = ["Answer", "Call", "Provider", "Providers"]
