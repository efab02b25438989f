"""Logs, traces, metrics. Used by all packages, uses none."""

from .logs import LogFormat, Logger, configure, logger, redact_lines, structlog_to_logging
from .seldom import CONNECTION_LINES, Seldom, connection_lines

__all__ = [
    "CONNECTION_LINES",
    "LogFormat",
    "Logger",
    "Seldom",
    "configure",
    "connection_lines",
    "logger",
    "redact_lines",
    "structlog_to_logging",
]
