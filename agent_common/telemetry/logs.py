"""Log lines on stderr: JSON, one object a line, or text where a person reads them on a terminal."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable, MutableMapping
from datetime import UTC, datetime
from typing import Any, Literal

from .seldom import SeldomWarnings

LogFormat = Literal["auto", "json", "text"]
_FACTS = "facts"
LONGEST_FACT = 3 << 10
LONGEST_TRACE = 16 << 10
"""Characters of one value and of a trace, which may quote what somebody has sent."""
_to_json = json.JSONEncoder(default=str).encode
_NOISY = ("httpx2", "httpcore2", "uvicorn", "alembic", "asyncio")


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


_malformed_request_filter = SeldomWarnings()
"""uvicorn warns of each request that is no HTTP, or wants a websocket."""


def logger(name: str) -> Logger:
    """The logger of a module: `log = logger(__name__)`."""
    return Logger(name)


_redact: Callable[[str], str] = str


def redact_lines(redact: Callable[[str], str]) -> None:
    """Set the function that takes secrets out of every line from now on."""
    global _redact  # noqa: PLW0603  a process has one log
    _redact = redact


def configure(level: str, log_format: LogFormat = "auto") -> None:
    """Sets up the process's log; `level` is the least serious one that is written. `auto` writes text to a terminal and
    JSON to anything else."""
    # A record without the caller, thread and process, which no line shows, costs half as much.
    logging._srcfile = None  # pyright: ignore[reportPrivateUsage]
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    text = sys.stderr.isatty() if log_format == "auto" else log_format == "text"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Text() if text else _Json())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for noisy in _NOISY:
        logging.getLogger(noisy).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_malformed_request_filter)


def structlog_to_logging(_: object, __: str, event: MutableMapping[str, Any]) -> tuple[tuple[str], dict[str, Any]]:
    """The last processor of structlog: hands the event to `logging` as a Logger does."""
    failure = event.pop("exc_info", None)
    return (str(event.pop("event")),), {"extra": {_FACTS: dict(event)}, "exc_info": failure}


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "timestamp": datetime.fromtimestamp(record.created, tz=UTC).isoformat(),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "logger": record.name,
            **_facts(record),
        }
        text = _to_json(line)
        if len(text) > LONGEST_FACT:  # in a shorter line no value is longer
            line = {name: _cut_value(value) for name, value in line.items()}
            text = _to_json(line)
        return _redact(_to_json({**line, "exception": _trace(record)}) if record.exc_info else text)


class _Text(logging.Formatter):
    """`12:04:05 WARNING turn ended  status=failed code=model_quota`, then the trace, if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        clock = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        facts = " ".join(
            f"{name}={_one_line_value(_cut_value(value))}"
            for name, value in _facts(record).items()
            if value is not None
        )
        event = _one_line_value(_cut(record.getMessage(), LONGEST_FACT), quoted=False)
        line = f"{clock} {record.levelname:<7} {event}  {facts}".rstrip()
        return _redact(f"{line}\n{_trace(record)}" if record.exc_info else line)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    facts: dict[str, Any] = getattr(record, _FACTS, {})
    return facts


def _cut_value(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_FACT else _cut(value, LONGEST_FACT)
    text = _to_json(value)
    return value if len(text) <= LONGEST_FACT else _cut(text, LONGEST_FACT)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[:longest]}... ({len(text)} characters)"


def _trace(record: logging.LogRecord) -> str:
    if not record.exc_info:
        return ""
    text = "".join(traceback.format_exception(*record.exc_info))
    if len(text) <= LONGEST_TRACE:
        return text
    return f"{text[: LONGEST_TRACE // 2]}\n... ({len(text)} characters) ...\n{text[-LONGEST_TRACE // 2 :]}"


def _one_line_value(value: Any, *, quoted: bool = True) -> str:
    """A value on one line: what others have written must not move a terminal's cursor."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if text.isprintable() and not (quoted and isinstance(value, str) and (not text or " " in text)):
        return text
    return json.dumps(text)
