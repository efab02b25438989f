"""The providers that answer model calls, behind one `Provider` protocol."""

from .base import Provider, ProviderAnswer, ProviderCall
from .demo import DemoMove, add_demo_script
from .local import missing_parts as local_model_missing
from .registry import Providers

__all__ = [
    "DemoMove",
    "Provider",
    "ProviderAnswer",
    "ProviderCall",
    "Providers",
    "add_demo_script",
    "local_model_missing",
]
