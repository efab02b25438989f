"""What an agent learns: functions of its own, written as plugins, held in processes of their own.

A plugin imports this package inside its worker, so it stays light: the server's side loads when it is asked for.
"""

from typing import TYPE_CHECKING, Any

from ..errors import MeshUnavailable
from .worker.plugin import skill

if TYPE_CHECKING:
    from .authoring import authoring_tools
    from .caller import SkillSearch
    from .dependencies import Environments, PackageIndex
    from .grants import Grants
    from .host import SkillHost
    from .library import SkillLibrary
    from .process import Setup
    from .source import Source, find_source
    from .staging import Staging
    from .trial import Test as SkillTest
    from .trial import Trials as SkillTrials
    from .versions import MIGRATIONS, Versions

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
    "MIGRATIONS": "versions",
    "Environments": "dependencies",
    "Grants": "grants",
    "PackageIndex": "dependencies",
    "Setup": "process",
    "SkillHost": "host",
    "SkillLibrary": "library",
    "SkillSearch": "caller",
    "SkillTest": "trial.Test",
    "SkillTrials": "trial.Trials",
    "Source": "source",
    "Staging": "staging",
    "Versions": "versions",
    "authoring_tools": "authoring",
    "find_source": "source",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(name)
    from importlib import import_module

    module, _, renamed = _LATER[name].partition(".")
    return getattr(import_module(f"{__name__}.{module}"), renamed or name)
