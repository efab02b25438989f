"""Tools: their contract, the gate that runs every call, the catalog, and the tools themselves."""

from .catalog.builtin import builtin_tools
from .catalog.registry import ToolRegistry
from .core.answer_schema import check_answer_schema
from .core.contract import (
    HUB_TOOL_NAMES,
    LOCKED_TOOL_NAMES,
    MESH_TOOL_NAMES,
    OTHER_TOOL_NAMES,
    RESERVED_TOOL_NAMES,
    AccessRequest,
    NeedsHuman,
    Output,
    Tool,
    ToolProvider,
    with_aliases,
)
from .core.gate import DEFAULT_TIMEOUT, Capability, ToolGate, Watchdog
from .core.schema import check_arguments, load_schema_validator, normalize_arguments, schema_fault
from .core.verdict import Verdict
from .files.quota import QuotaCheck
from .watchdog.watchdog import PolicyWatchdog, choose_watchdog

__all__ = [
    "DEFAULT_TIMEOUT",
    "HUB_TOOL_NAMES",
    "LOCKED_TOOL_NAMES",
    "MESH_TOOL_NAMES",
    "OTHER_TOOL_NAMES",
    "RESERVED_TOOL_NAMES",
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
    "check_answer_schema",
    "check_arguments",
    "choose_watchdog",
    "load_schema_validator",
    "normalize_arguments",
    "schema_fault",
    "with_aliases",
]
