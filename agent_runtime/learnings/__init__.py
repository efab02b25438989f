"""What the agent has learnt from failures and from people: two files that it keeps and everybody may edit."""

from .correction_phrases import corrects, may_correct
from .daily_log import DailyLogWriter
from .section import section
from .service import LearningService, NoLearnings

__all__ = ["DailyLogWriter", "LearningService", "NoLearnings", "corrects", "may_correct", "section"]
