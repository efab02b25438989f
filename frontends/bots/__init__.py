"""The process of the bots: receives, handles chat by chat, and keeps all of it running."""

from .logs import configure_logs
from .platforms import make_platform
from .run import Engine, run

__all__ = ["Engine", "configure_logs", "make_platform", "run"]
