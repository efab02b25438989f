"""The command `agent-host`."""

from .main import main, settings_help

__all__ = ["main", "settings_help"]
