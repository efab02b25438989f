"""What the agent has learnt from failed calls and from people's corrections, kept in two files that people may edit."""

from .correction_phrases import is_correction
from .daily_log import DailyLogWriter
from .section import render_section
from .service import LearningService, NoLearnings

__all__ = ["DailyLogWriter", "LearningService", "NoLearnings", "is_correction", "render_section"]
