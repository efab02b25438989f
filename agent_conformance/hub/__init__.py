"""Rules that a hub must keep."""

from .agent import HubOptions, TesterAgent
from .agents import TesterAgents
from .delivery import DELIVERY
from .frames import FRAMES, GLOBAL
from .identity import IDENTITY, LEAVING
from .limits import LIMITS
from .log import LOG
from .sessions import SESSIONS
from .tasks import TASKS
from .turns import TURNS

HUB = (
    *FRAMES.all,
    *IDENTITY.all,
    *SESSIONS.all,
    *TURNS.all,
    *LOG.all,
    *DELIVERY.all,
    *LIMITS.all,
    *TASKS.all,
    *LEAVING.all,
    *GLOBAL.all,
)
"""The rules, in the order in which they are tried."""

__all__ = ["HUB", "HubOptions", "TesterAgent", "TesterAgents"]
