"""The command line: `agent-runtime serve`, `run`, `skill`, `mcp` and the others."""

from .main import main, settings_help

__all__ = ["main", "settings_help"]
