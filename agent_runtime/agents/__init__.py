"""An agent as data: manifests, those of the product and those of a folder, and the operator's word over all of them."""

from . import safe_yaml
from .directory import DEFAULT, Agents
from .manifest import BadManifest, Manifest, manifest
from .project import Project

__all__ = ["DEFAULT", "Agents", "BadManifest", "Manifest", "Project", "manifest", "safe_yaml"]
