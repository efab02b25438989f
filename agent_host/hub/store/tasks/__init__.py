"""Tasks in the store: as rows, in memory, and written to the database."""

from .memory import MemoryTasks
from .rows import read_task, task_row
from .writing import write_tasks

__all__ = ["MemoryTasks", "read_task", "task_row", "write_tasks"]
