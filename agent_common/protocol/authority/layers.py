"""The authority of a turn: a stack of layers, all of which must allow a call. A subagent has its parent's layers and
one more, so that its authority is never wider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..permission import ANY_PROGRAM, Folders, Net, RequirementSet, Rule
from .globs import matches, may_match_prefix
from .grants import missing_grant
from .rules import Access, Decision, decide, strictest

ALL_GRANTED = RequirementSet(  # noqa: S604 - names programs, runs none
    fs=Folders(read=["{workspace}", "{ad-hoc}"], write=["{workspace}", "{ad-hoc}"]),
    net=Net(hosts=["*"]),
    shell=[ANY_PROGRAM],
    capabilities=["*"],
)
"""The upper limit for all agents, unless the operator sets a lower one."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The tools, rules and grant of one agent, or of the host."""

    grant: RequirementSet = field(default_factory=lambda: ALL_GRANTED)
    tools: tuple[str, ...] = ("*",)
    """Patterns for the names of the tools that are offered."""
    rules: tuple[Rule, ...] | None = None
    """The rules for single calls; None means that this layer has none and decides nothing about them."""


@dataclass(frozen=True, slots=True)
class Authority:
    """All layers of a turn. Immutable: a step uses one authority from its start to its end."""

    layers: tuple[Layer, ...] = (Layer(),)

    def with_layer(self, layer: Layer) -> Authority:
        """Return this authority with one more layer."""
        return Authority((*self.layers, layer))

    def offers(self, *names: str) -> bool:
        """Whether every layer offers a tool that has these names."""
        return all(any(matches(one, name) for one in layer.tools for name in names) for layer in self.layers)

    def may_offer(self, *starts: str) -> bool:
        """Whether tools whose names have one of these prefixes may be offered, before their server has listed them."""
        return all(
            any(may_match_prefix(one, start) for one in layer.tools for start in starts) for layer in self.layers
        )

    def missing_grant(self, wanted: RequirementSet, variables: Mapping[str, str]) -> str | None:
        """Return the first requirement that a layer does not grant, as text for the model, or None."""
        lacks = (missing_grant(layer.grant, wanted, variables) for layer in self.layers)
        return next((one for one in lacks if one is not None), None)

    def has_allow_rule(self, permission: str) -> bool:
        """Whether every layer with rules has an allow rule that names this permission."""
        return all(
            any(rule.permission == permission and rule.action == "allow" for rule in layer.rules)
            for layer in self.layers
            if layer.rules is not None
        )

    def explicitly_allows(self, permission: str, subject: str) -> bool:
        """Whether every layer with rules allows this by a rule that names the permission, not by a wildcard."""
        access = Access(permission, subjects=(subject,))
        answers = [decide(layer.rules, access) for layer in self.layers if layer.rules is not None]
        return bool(answers) and all(
            answer.action == "allow" and answer.rule is not None and answer.rule.permission == permission
            for answer in answers
        )

    def decide(self, access: Access) -> Decision:
        """Return the strictest decision of all layers."""
        answers = [decide(layer.rules, access) for layer in self.layers if layer.rules is not None]
        return strictest(answers) if answers else Decision("allow")
