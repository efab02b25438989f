"""Log lines as JSON on stderr, one object a line."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

_FACTS = "facts"


class Logger:
    """Writes events with their facts: `log.info("turn failed", message_id=...)`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **facts: Any) -> None:
        self._logger.debug(event, extra={_FACTS: facts})

    def info(self, event: str, **facts: Any) -> None:
        self._logger.info(event, extra={_FACTS: facts})

    def warning(self, event: str, **facts: Any) -> None:
        self._logger.warning(event, extra={_FACTS: facts})

    def error(self, event: str, *, exc_info: BaseException | None = None, **facts: Any) -> None:
        self._logger.error(event, extra={_FACTS: facts}, exc_info=exc_info)

    def exception(self, event: str, **facts: Any) -> None:
        """As `error`, with the trace of the exception that is being handled."""
        self._logger.error(event, extra={_FACTS: facts}, exc_info=sys.exc_info())


def logger(name: str) -> Logger:
    """The logger of a module: `log = logger(__name__)`."""
    return Logger(name)


def configure(level: str) -> None:
    """Sets up the process's log; `level` is the least serious one that is written."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "openai", "uvicorn"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": datetime.fromtimestamp(record.created, tz=UTC).isoformat(),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **getattr(record, _FACTS, {}),
        }
        if record.exc_info:
            line["exception"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line, default=str)
