"""Log lines as JSON on stderr, through structlog.

structlog is loaded with the first line that is written: its import costs a cold start more than opening the database.
"""

from __future__ import annotations

import logging
import sys
from functools import cache
from typing import Any


class Logger:
    """Writes events with their facts: `log.info("turn failed", message_id=...)`."""

    def debug(self, event: str, **facts: Any) -> None:
        _structlog().debug(event, **facts)

    def info(self, event: str, **facts: Any) -> None:
        _structlog().info(event, **facts)

    def warning(self, event: str, **facts: Any) -> None:
        _structlog().warning(event, **facts)

    def error(self, event: str, **facts: Any) -> None:
        _structlog().error(event, **facts)

    def exception(self, event: str, **facts: Any) -> None:
        """As `error`, with the trace of the exception that is being handled."""
        _structlog().exception(event, **facts)


def logger() -> Logger:
    """The logger of a module."""
    return _LOGGER


def configure(level: str) -> None:
    """Sets the least serious level that is written; call it once, before the first line."""
    global _level  # noqa: PLW0603  one process, one log
    _level = level


_LOGGER = Logger()
_level = "info"


@cache
def _structlog() -> Any:
    import structlog

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[_level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    return structlog.get_logger()
