"""What a turn may do: the operator's ceiling, then everyone it is called by, then its own agent; each must agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from agent_common.protocol.authority import Authority, Layer

from ...agents import AgentDirectory, Manifest, ProjectRules
from .turn_state import Turn


class UnknownAgent(Exception):
    """The agent of a turn exists no longer."""


@dataclass(frozen=True, slots=True)
class AuthorityResolver:
    """Works out authority anew for every call, so that what a person takes away is gone at once."""

    agents: AgentDirectory
    project: ProjectRules
    host_layer: Callable[[], Layer | None] = lambda: None
    """What the host's constraints leave, right now."""

    def manifest(self, turn: Turn) -> Manifest:
        """Who answers. Raises GoneAgent."""
        found = self.agents.get(turn.request.agent)
        if found is None:
            raise UnknownAgent(f"agent {turn.request.agent} does not exist any more")
        return found

    def resolve(self, turn: Turn) -> Authority:
        """Raises GoneAgent."""
        above = self.resolve(turn.request.parent) if turn.request.parent is not None else self._operator_authority()
        if turn.request.external_work is not None and turn.request.external_work.layer is not None:
            above = above.with_layer(turn.request.external_work.layer)
        return above.with_layer(self._agent_layer(self.manifest(turn), turn))

    def resolve_standalone(self, manifest: Manifest) -> Authority:
        """What an agent may do that nobody has called, before anybody has allowed it more."""
        rules = (*(manifest.layer.rules or ()), *self.project.rules)
        return self._operator_authority().with_layer(replace(manifest.layer, rules=rules))

    def _operator_authority(self) -> Authority:
        ceiling, host = Layer(self.project.ceiling), self.host_layer()
        return Authority((ceiling,)) if host is None else Authority((ceiling, host))

    def _agent_layer(self, manifest: Manifest, turn: Turn) -> Layer:
        rules = (*(manifest.layer.rules or ()), *self.project.rules, *turn.session.rules)
        return replace(manifest.layer, rules=rules)
