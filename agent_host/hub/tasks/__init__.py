"""What agents say they are doing: tasks, who may see them, and how they end."""

from .changes import TaskWriter
from .tasks import MOST_ROWS, Observation, TaskPage, Tasks

__all__ = ["MOST_ROWS", "Observation", "TaskPage", "TaskWriter", "Tasks"]
