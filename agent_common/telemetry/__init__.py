"""Logs, traces, metrics. Used by all rooms, uses none."""

from .logs import LogFormat, Logger, configure, facts_of, logger
from .seldom import Seldom

__all__ = ["LogFormat", "Logger", "Seldom", "configure", "facts_of", "logger"]
