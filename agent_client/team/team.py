"""`Team`: all that the agents of one team share."""

from __future__ import annotations

from ..http import Connection
from .agents import TeamAgents
from .artifacts import Artifacts
from .blackboard import Blackboard
from .topics import Topics


class Team:
    """A team of a host, for the operator or for one of its agents.

    team = mesh.team("garden")
    await team.blackboard.put("plans/roses", {"beds": 3}, if_absent=True)
    reply = await team.agents.ask("writer", "Write two lines about roses.")
    """

    def __init__(self, connection: Connection, name: str | None = None) -> None:
        self.agents = TeamAgents(connection, name)
        self.blackboard = Blackboard(connection, name)
        self.topics = Topics(connection, name)
        self.artifacts = Artifacts(connection, name)
