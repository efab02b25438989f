"""What an agent learns: functions of its own, written as plugins, held in processes of their own.

A plugin imports this package inside its worker, so it stays light: the server's side loads when it is asked for.
"""

from typing import TYPE_CHECKING, Any

from ..errors import MeshUnavailable
from .worker.plugin import skill

if TYPE_CHECKING:
    from .authoring import authoring_tools
    from .dependencies import Environments, PackageIndex
    from .host import SkillHost
    from .library import SkillLibrary
    from .process import Setup
    from .staging import Staging
    from .versions import MIGRATIONS, Versions

__all__ = [
    "MIGRATIONS",
    "Environments",
    "MeshUnavailable",
    "PackageIndex",
    "Setup",
    "SkillHost",
    "SkillLibrary",
    "Staging",
    "Versions",
    "authoring_tools",
    "skill",
]

_LATER = {
    "MIGRATIONS": "versions",
    "Environments": "dependencies",
    "PackageIndex": "dependencies",
    "Setup": "process",
    "SkillHost": "host",
    "SkillLibrary": "library",
    "Staging": "staging",
    "Versions": "versions",
    "authoring_tools": "authoring",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
