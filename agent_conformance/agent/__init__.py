"""Rules that an agent's end of the mediation channel must keep."""

from .control import CONTROL, DRAIN
from .hello import GLOBAL, HELLO
from .input import INPUT
from .link import LINK
from .work import WORK

__all__ = ["CONTROL", "DRAIN", "GLOBAL", "HELLO", "INPUT", "LINK", "WORK"]
