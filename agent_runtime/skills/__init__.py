"""Skills: functions that are written as plugins, run in processes of their own, and offered to the agent as tools.

A plugin imports this package inside its worker, so the server's side is loaded on first use only.
"""

from typing import TYPE_CHECKING, Any

from ..errors import MeshRefused, MeshUnavailable
from .worker.plugin import skill

if TYPE_CHECKING:
    from .authoring import authoring_tools
    from .dependencies import Environments, PackageIndex
    from .library import SkillLibrary
    from .manager import SkillManager
    from .sources.granted_hosts import describe_grant
    from .sources.grants import Grants
    from .sources.source import PluginSource, find_source
    from .sources.staging import Staging
    from .sources.versions import MIGRATIONS, PluginVersions
    from .validation.validator import SkillValidator, SmokeTest
    from .worker.mesh_proxy import AsyncMesh, BlockingMesh
    from .workers.caller import MeshTools
    from .workers.process import WorkerSetup

__all__ = [
    "MIGRATIONS",
    "AsyncMesh",
    "BlockingMesh",
    "Environments",
    "Grants",
    "MeshRefused",
    "MeshTools",
    "MeshUnavailable",
    "PackageIndex",
    "PluginSource",
    "PluginVersions",
    "SkillLibrary",
    "SkillManager",
    "SkillValidator",
    "SmokeTest",
    "Staging",
    "WorkerSetup",
    "authoring_tools",
    "describe_grant",
    "find_source",
    "skill",
]

_LATER = {
    "AsyncMesh": "worker.mesh_proxy",
    "BlockingMesh": "worker.mesh_proxy",
    "MeshTools": "workers.caller",
    "MIGRATIONS": "sources.versions",
    "Environments": "dependencies",
    "Grants": "sources.grants",
    "PackageIndex": "dependencies",
    "WorkerSetup": "workers.process",
    "SkillManager": "manager",
    "SkillLibrary": "library",
    "SmokeTest": "validation.validator",
    "SkillValidator": "validation.validator",
    "PluginSource": "sources.source",
    "Staging": "sources.staging",
    "PluginVersions": "sources.versions",
    "authoring_tools": "authoring",
    "describe_grant": "sources.granted_hosts",
    "find_source": "sources.source",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
