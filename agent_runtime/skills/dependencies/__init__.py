"""Dependencies of plugins: read from their inline metadata, resolved by uv into cached environments."""

from .environments import Environments, PackageIndex
from .metadata import requirements_of

__all__ = ["Environments", "PackageIndex", "requirements_of"]
