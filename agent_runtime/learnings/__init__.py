"""What the agent has learnt from failures and from people: two files that it keeps and everybody may edit."""

from .correction_phrases import is_correction
from .daily_log import DailyLogWriter
from .section import render_section
from .service import LearningService, NoLearnings

__all__ = ["DailyLogWriter", "LearningService", "NoLearnings", "is_correction", "render_section"]
