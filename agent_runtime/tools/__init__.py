"""What an agent may do: the contract of a tool, the one gate that runs them, the catalog, and the tools themselves."""

from .builtin import builtin_tools
from .contract import LOCKED, OWN, RESERVED, NeedsHuman, Output, Reach, Tool, ToolProvider, with_aliases
from .gate import DEFAULT_TIMEOUT, Capability, Gate, Watchdog
from .registry import ToolRegistry
from .schema import checked as schema_faults
from .schema import normalised, schema_fault
from .schema import ready as schema_ready
from .space import Space
from .verdict import Verdict
from .watchdog import PolicyWatchdog, choose_watchdog

__all__ = [
    "DEFAULT_TIMEOUT",
    "LOCKED",
    "OWN",
    "RESERVED",
    "Capability",
    "Gate",
    "NeedsHuman",
    "Output",
    "PolicyWatchdog",
    "Reach",
    "Space",
    "Tool",
    "ToolProvider",
    "ToolRegistry",
    "Verdict",
    "Watchdog",
    "builtin_tools",
    "choose_watchdog",
    "normalised",
    "schema_fault",
    "schema_faults",
    "schema_ready",
    "with_aliases",
]
