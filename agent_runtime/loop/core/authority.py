"""Resolve what a turn may do. The operator's ceiling, every calling agent and the turn's own agent must all agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_common.protocol import Rule
from agent_common.protocol.authority import Authority, Layer

from ...agents import AgentDirectory, Manifest, ProjectRules
from .turn_state import Turn


class UnknownAgent(Exception):
    """Raised when the agent of a turn no longer exists."""


@dataclass(frozen=True, slots=True)
class AuthorityResolver:
    """Computes authority anew for every call, so that a withdrawn permission takes effect at once."""

    agents: AgentDirectory
    project: ProjectRules
    host_layer: Callable[[], Layer | None] = lambda: None
    """Returns the host's constraints as they are now; None if there are none."""

    def manifest(self, turn: Turn) -> Manifest:
        """Return the manifest of the turn's agent. Raises UnknownAgent."""
        found = self.agents.get(turn.request.agent)
        if found is None:
            raise UnknownAgent(f"agent {turn.request.agent} no longer exists")
        return found

    def resolve(self, turn: Turn) -> Authority:
        """Return the authority of the turn, limited by that of its callers. Raises UnknownAgent."""
        above = self.resolve(turn.request.parent) if turn.request.parent is not None else self._operator_authority()
        if turn.request.external_work is not None and turn.request.external_work.layer is not None:
            above = above.with_layer(turn.request.external_work.layer)
        layer = self.manifest(turn).layer
        rules = (*(layer.rules or ()), *self.project.rules, *_agent_rules(turn), *turn.session.rules)
        return above.with_layer(Layer(layer.grant, layer.tools, rules))

    def resolve_standalone(self, manifest: Manifest) -> Authority:
        """Return what the agent may do in a turn of its own, without the rules of a session or a caller."""
        rules = (*(manifest.layer.rules or ()), *self.project.rules)
        return self._operator_authority().with_layer(Layer(manifest.layer.grant, manifest.layer.tools, rules))

    def _operator_authority(self) -> Authority:
        ceiling = Layer(self.project.ceiling)
        host = self.host_layer()
        return Authority((ceiling,)) if host is None else Authority((ceiling, host))


def _agent_rules(turn: Turn) -> Sequence[Rule]:
    """Return the rules of the turn's principal for its agent. They answer a question in advance, so they hold only
    where the person would be asked: in chats, and neither in tasks nor in agents that were called."""
    if not turn.request.interactive or turn.session.is_subagent:
        return ()
    shared = turn.session.agent_rules.get(turn.request.agent)
    return shared.rules if shared is not None else ()
