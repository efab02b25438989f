"""The agent's memory: facts, Markdown files and past sessions in one index, separate for each principal."""

from .index.schema import MIGRATIONS, Kind
from .search.embeddings import EmbeddingSearch
from .service import MemoryAnswer, MemoryService, NoMemory, SavedFact

__all__ = ["MIGRATIONS", "EmbeddingSearch", "Kind", "MemoryAnswer", "MemoryService", "NoMemory", "SavedFact"]
