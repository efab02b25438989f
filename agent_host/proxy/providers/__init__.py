"""The providers that answer model calls, behind one `Provider` protocol."""

from .base import Provider, ProviderAnswer, ProviderCall
from .local import missing_parts as local_model_missing
from .registry import Providers

__all__ = ["Provider", "ProviderAnswer", "ProviderCall", "Providers", "local_model_missing"]
