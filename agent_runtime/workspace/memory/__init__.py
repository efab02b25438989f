"""The agent's memory: facts, Markdown files and past sessions behind one index, each principal's own kept apart."""

from .keeper import Answer, MemoryKeeper, NoMemory, Saved
from .meaning import Meaning
from .schema import MIGRATIONS, Kind

__all__ = ["MIGRATIONS", "Answer", "Kind", "Meaning", "MemoryKeeper", "NoMemory", "Saved"]
