"""How commands and skill workers are held: one Confinement, chosen at start, runs every foreign program."""

from .backends.backend import COMMAND_PATH, READERS_ID, Launch, Rung
from .confinement import Confinement, ConfinementName, Finished
from .kernel.priority import take_precedence
from .probe.select import ConfinementMode, choose_confinement
from .run.capture import OUTPUT_LIMIT, SPILL_LIMIT
from .run.process import Child
from .spec.spec import Box, Limits, Quota

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
