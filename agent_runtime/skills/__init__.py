"""What an agent learns: functions of its own, written as plugins, held in processes of their own.

A plugin imports this package inside its worker, so it stays light: the server's side loads when it is asked for.
"""

from typing import TYPE_CHECKING, Any

from ..errors import MeshUnavailable
from .plugin import skill

if TYPE_CHECKING:
    from .host import SkillHost

__all__ = ["MeshUnavailable", "SkillHost", "skill"]


def __getattr__(name: str) -> Any:
    if name != "SkillHost":
        raise AttributeError(name)
    from .host import SkillHost

    return SkillHost
