"""What the agents of a team have at their host: each other, a blackboard, topics and artifacts."""

from .agents import TeamAgents
from .artifacts import Artifacts
from .blackboard import Blackboard
from .requests import TeamEvent
from .team import Team
from .topics import Topics

__all__ = ["Artifacts", "Blackboard", "Team", "TeamAgents", "TeamEvent", "Topics"]
