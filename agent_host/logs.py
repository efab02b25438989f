"""Set up the host's log. It uses the same formatter as the guest, so that both logs have the same shape."""

from __future__ import annotations

import structlog

from agent_common.telemetry import LogFormat, configure, structlog_to_logging


def configure_logs(level: str, shape: LogFormat = "auto") -> None:
    """Write events of `level` and above to stderr, as JSON or as text."""
    configure(level, shape)
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog_to_logging],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
