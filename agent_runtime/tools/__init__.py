"""What an agent may do: the contract of a tool, the one gate that runs them, the catalog, and the tools themselves."""

from .builtin import builtin_tools
from .contract import LOCKED, NeedsHuman, Output, Requirements, Tool, ToolProvider
from .gate import DEFAULT_TIMEOUT, Capability, Gate, Verdict, Watchdog
from .registry import ToolRegistry
from .schema import schema_fault

__all__ = [
    "DEFAULT_TIMEOUT",
    "LOCKED",
    "Capability",
    "Gate",
    "NeedsHuman",
    "Output",
    "Requirements",
    "Tool",
    "ToolProvider",
    "ToolRegistry",
    "Verdict",
    "Watchdog",
    "builtin_tools",
    "schema_fault",
]
