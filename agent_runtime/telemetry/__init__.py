"""Logs, traces, metrics. Used by all rooms, uses none."""

from .logs import LogFormat, Logger, configure, facts_of, logger

__all__ = ["LogFormat", "Logger", "configure", "facts_of", "logger"]
