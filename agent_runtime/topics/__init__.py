"""Topics that sessions of this agent have subscribed to: what others publish becomes turns of these sessions."""

from .follower import TopicFollower
from .positions import MIGRATIONS
from .turns import TOPIC_WORK, TopicTurns

__all__ = ["MIGRATIONS", "TOPIC_WORK", "TopicFollower", "TopicTurns"]
