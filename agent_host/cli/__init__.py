"""The command `agent-host`."""

from .main import SETTINGS_HELP, main

__all__ = ["SETTINGS_HELP", "main"]
