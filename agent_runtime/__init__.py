"""The guest: one agent, one loop, one FastAPI server inside one microVM."""

from agent_common import __version__

__all__ = ["__version__"]
