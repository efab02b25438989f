"""`SyncTeam`: the calls of `Team` for programs without an event loop."""

from __future__ import annotations

from ..team import Artifacts, Blackboard, Team, TeamAgents, Topics
from .facade import Facade, iterating, waiting


class SyncTeamAgents(Facade[TeamAgents]):
    list = iterating(TeamAgents.list)
    get = waiting(TeamAgents.get)
    ask = waiting(TeamAgents.ask)
    cancel = waiting(TeamAgents.cancel)
    hand_off = waiting(TeamAgents.hand_off)


class SyncBlackboard(Facade[Blackboard]):
    list = iterating(Blackboard.list)
    get = waiting(Blackboard.get)
    put = waiting(Blackboard.put)
    delete = waiting(Blackboard.delete)
    history = iterating(Blackboard.history)
    watch = iterating(Blackboard.watch)
    claim = waiting(Blackboard.claim)
    release = waiting(Blackboard.release)


class SyncTopics(Facade[Topics]):
    publish = waiting(Topics.publish)
    read = iterating(Topics.read)
    follow = iterating(Topics.follow)
    delete = waiting(Topics.delete)


class SyncArtifacts(Facade[Artifacts]):
    list = iterating(Artifacts.list)
    stat = waiting(Artifacts.stat)
    read = waiting(Artifacts.read)
    stream = iterating(Artifacts.stream)
    write = waiting(Artifacts.write)
    delete = waiting(Artifacts.delete)


class SyncTeam(Facade[Team]):
    """What the agents of a team share; see `Team`."""

    @property
    def agents(self) -> SyncTeamAgents:
        return SyncTeamAgents(self.wrapped.agents, self.loop)

    @property
    def blackboard(self) -> SyncBlackboard:
        return SyncBlackboard(self.wrapped.blackboard, self.loop)

    @property
    def topics(self) -> SyncTopics:
        return SyncTopics(self.wrapped.topics, self.loop)

    @property
    def artifacts(self) -> SyncArtifacts:
        return SyncArtifacts(self.wrapped.artifacts, self.loop)
