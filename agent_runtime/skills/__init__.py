"""What an agent learns: functions of its own, written as plugins, held in processes of their own.

A plugin imports this package inside its worker, so it stays light: the server's side loads when it is asked for.
"""

from typing import TYPE_CHECKING, Any

from ..errors import MeshUnavailable
from .worker.plugin import skill

if TYPE_CHECKING:
    from .authoring import authoring_tools
    from .dependencies import Environments, PackageIndex
    from .grants import Grants
    from .library import SkillLibrary
    from .manager import SkillHost
    from .sources.source import Source, find_source
    from .sources.staging import Staging
    from .sources.versions import MIGRATIONS, Versions
    from .validation.validator import Test as SkillTest
    from .validation.validator import Trials as SkillTrials
    from .workers.caller import SkillSearch
    from .workers.process import Setup

__all__ = [
    "MIGRATIONS",
    "Environments",
    "Grants",
    "MeshUnavailable",
    "PackageIndex",
    "Setup",
    "SkillHost",
    "SkillLibrary",
    "SkillSearch",
    "SkillTest",
    "SkillTrials",
    "Source",
    "Staging",
    "Versions",
    "authoring_tools",
    "find_source",
    "skill",
]

_LATER = {
    "MIGRATIONS": "sources.versions",
    "Environments": "dependencies",
    "Grants": "grants",
    "PackageIndex": "dependencies",
    "Setup": "workers.process",
    "SkillHost": "manager",
    "SkillLibrary": "library",
    "SkillSearch": "workers.caller",
    "SkillTest": "validation.validator:Test",
    "SkillTrials": "validation.validator:Trials",
    "Source": "sources.source",
    "Staging": "sources.staging",
    "Versions": "sources.versions",
    "authoring_tools": "authoring",
    "find_source": "sources.source",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(name)
    from importlib import import_module

    module, _, renamed = _LATER[name].partition(":")
    return getattr(import_module(f"{__name__}.{module}"), renamed or name)
