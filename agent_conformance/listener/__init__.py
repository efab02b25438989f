"""Rules that a mediation listener must keep."""

from . import control, hello, task_results, work

__all__ = ["control", "hello", "task_results", "work"]
