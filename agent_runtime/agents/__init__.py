"""Agents as data: manifests, both built in and from a folder, and the operator's rules over all of them."""

from . import safe_yaml
from .directory import DEFAULT, AgentDirectory
from .manifest import InvalidManifest, Manifest, parse_manifest
from .project import ProjectRules

__all__ = ["DEFAULT", "AgentDirectory", "InvalidManifest", "Manifest", "ProjectRules", "parse_manifest", "safe_yaml"]
