"""The log of the bots: lines on stderr in which no token can stand."""

from __future__ import annotations

import logging

from agent_common.redaction import Redactor
from agent_common.telemetry import configure

from ..settings import BotsSettings

_LIBRARIES = ("httpx", "httpcore", "telegram", "discord", "apscheduler", "aiohttp")
"""Their lines have the URLs of requests, in which the token of a bot stands, and the texts of people."""


def configure_logs(settings: BotsSettings) -> None:
    """Set up the log of the process."""
    from stamina.instrumentation import set_on_retry_hooks

    set_on_retry_hooks(())  # they would write to stdout; an error says how often the client has tried
    configure("info")
    for library in _LIBRARIES:
        logging.getLogger(library).setLevel(logging.WARNING)
    secrets = [settings.mesh_token, *(bot.token for bot in settings.bots), *settings.notices]
    redactor = Redactor(secret.get_secret_value() for secret in secrets)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Redacting(handler.formatter or logging.Formatter(), redactor))


class _Redacting(logging.Formatter):
    def __init__(self, inner: logging.Formatter, redactor: Redactor) -> None:
        super().__init__()
        self._inner = inner
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.redact(self._inner.format(record))
