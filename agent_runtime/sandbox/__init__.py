"""How commands and skill workers are held: one Confinement, chosen at start, runs every foreign program."""

from .box import Box, Limits
from .capture import OUTPUT_LIMIT, SPILL_LIMIT
from .child import Child
from .choose import ConfinementMode, choose_confinement
from .confinement import Confinement, ConfinementName, Finished
from .rung import Launch, Rung

__all__ = [
    "OUTPUT_LIMIT",
    "SPILL_LIMIT",
    "Box",
    "Child",
    "Confinement",
    "ConfinementMode",
    "ConfinementName",
    "Finished",
    "Launch",
    "Limits",
    "Rung",
    "choose_confinement",
]
