"""Whatever answers for a model, behind one Protocol."""

from .base import Answer, Call, Provider
from .local import missing_parts as local_model_missing
from .registry import Providers

__all__ = ["Answer", "Call", "Provider", "Providers", "local_model_missing"]
