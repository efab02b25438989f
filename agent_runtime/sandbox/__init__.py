"""How commands and skill workers are held: one Confinement, chosen at start, runs every foreign program."""

from .box import Box, Limits, Quota
from .capture import OUTPUT_LIMIT, SPILL_LIMIT
from .child import Child
from .choose import ConfinementMode, choose_confinement
from .confinement import Confinement, ConfinementName, Finished
from .precedence import take_precedence
from .rung import COMMAND_PATH, READERS_ID, Launch, Rung

__all__ = [
    "COMMAND_PATH",
    "OUTPUT_LIMIT",
    "READERS_ID",
    "SPILL_LIMIT",
    "Box",
    "Child",
    "Confinement",
    "ConfinementMode",
    "ConfinementName",
    "Finished",
    "Launch",
    "Limits",
    "Quota",
    "Rung",
    "choose_confinement",
    "take_precedence",
]
