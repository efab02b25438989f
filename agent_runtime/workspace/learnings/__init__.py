"""What the agent has learnt from failures and from people: two files that it keeps and everybody may edit."""

from .keeper import LearningKeeper, NoLearnings
from .section import section
from .signs import corrects, may_correct

__all__ = ["LearningKeeper", "NoLearnings", "corrects", "may_correct", "section"]
