"""The agent's memory: facts, Markdown files and past sessions behind one index, each principal's own kept apart."""

from .index.schema import MIGRATIONS, Kind
from .search.embeddings import EmbeddingSearch
from .service import MemoryAnswer, MemoryService, NoMemory, SavedFact

__all__ = ["MIGRATIONS", "EmbeddingSearch", "Kind", "MemoryAnswer", "MemoryService", "NoMemory", "SavedFact"]
