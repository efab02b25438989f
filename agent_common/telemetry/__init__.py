"""Logs, traces, metrics. Used by all packages, uses none."""

from .logs import LogFormat, Logger, configure, logger, redact_lines, structlog_to_logging
from .seldom import Seldom

__all__ = ["LogFormat", "Logger", "Seldom", "configure", "logger", "redact_lines", "structlog_to_logging"]
