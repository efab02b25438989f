"""The agent's memory: facts, Markdown files and past sessions behind one index, each principal's own kept apart."""

from .index.schema import MIGRATIONS, Kind
from .search.embeddings import Meaning
from .service import Answer, MemoryKeeper, NoMemory, Saved

__all__ = ["MIGRATIONS", "Answer", "Kind", "Meaning", "MemoryKeeper", "NoMemory", "Saved"]
