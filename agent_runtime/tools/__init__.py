"""What an agent may do: the contract of a tool, the one gate that runs them, the catalog, and the tools themselves."""

from .catalog.builtin import builtin_tools
from .catalog.registry import ToolRegistry
from .core.contract import LOCKED, OWN, RESERVED, AccessRequest, NeedsHuman, Output, Tool, ToolProvider, with_aliases
from .core.gate import DEFAULT_TIMEOUT, Capability, ToolGate, Watchdog
from .core.schema import checked as schema_faults
from .core.schema import normalised, schema_fault
from .core.schema import ready as schema_ready
from .core.verdict import Verdict
from .files.quota import QuotaCheck
from .watchdog.watchdog import PolicyWatchdog, choose_watchdog

__all__ = [
    "DEFAULT_TIMEOUT",
    "LOCKED",
    "OWN",
    "RESERVED",
    "AccessRequest",
    "Capability",
    "NeedsHuman",
    "Output",
    "PolicyWatchdog",
    "QuotaCheck",
    "Tool",
    "ToolGate",
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
