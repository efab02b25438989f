"""Small ends of the mediation channel: an agent and a listener, sound or faulty on purpose."""

from .agent import AGENT_FAULTS, LOOSE_AGENT_FAULTS, StubAgent
from .listener import LISTENER_FAULTS, LOOSE_LISTENER_FAULTS, StubListener

__all__ = [
    "AGENT_FAULTS",
    "LISTENER_FAULTS",
    "LOOSE_AGENT_FAULTS",
    "LOOSE_LISTENER_FAULTS",
    "StubAgent",
    "StubListener",
]
