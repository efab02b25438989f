"""Rules that an agent's end of the mediation channel must keep."""

from .control import CONTROL, DRAIN
from .hello import GLOBAL, HELLO
from .input import INPUT
from .link import LINK
from .task_results import TASK_RESULTS
from .work import WORK

__all__ = ["CONTROL", "DRAIN", "GLOBAL", "HELLO", "INPUT", "LINK", "TASK_RESULTS", "WORK"]
