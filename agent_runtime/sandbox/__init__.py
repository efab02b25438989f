"""Confinement of commands and skill workers: one Confinement, chosen at start, runs every foreign program."""

from .backends.backend import COMMAND_PATH, READERS_ID, LaunchPlan, SandboxBackend
from .confinement import CommandResult, Confinement, ConfinementName
from .kernel.priority import raise_priority
from .probe.select import ConfinementMode, choose_confinement
from .run.capture import OUTPUT_LIMIT, SPILL_LIMIT, spill_fault
from .run.process import SandboxProcess
from .spec.spec import Quota, SandboxLimits, SandboxSpec

__all__ = [
    "COMMAND_PATH",
    "OUTPUT_LIMIT",
    "READERS_ID",
    "SPILL_LIMIT",
    "CommandResult",
    "Confinement",
    "ConfinementMode",
    "ConfinementName",
    "LaunchPlan",
    "Quota",
    "SandboxBackend",
    "SandboxLimits",
    "SandboxProcess",
    "SandboxSpec",
    "choose_confinement",
    "raise_priority",
    "spill_fault",
]
