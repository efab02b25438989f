"""What a turn may do: layers, every one of which must agree. A child's authority is its parent's with one more layer,
so that it can never be wider."""

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
"""The host's ceiling unless the operator sets a lower one."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one agent, or the host, allows."""

    grant: RequirementSet = field(default_factory=lambda: ALL_GRANTED)
    tools: tuple[str, ...] = ("*",)
    """Patterns of the tools there are at all."""
    rules: tuple[Rule, ...] | None = None
    """None: this layer has no say in single calls."""


@dataclass(frozen=True, slots=True)
class Authority:
    """Immutable; a turn keeps the one that it began its step with."""

    layers: tuple[Layer, ...] = (Layer(),)

    def with_layer(self, layer: Layer) -> Authority:
        """This authority, narrowed by one more layer."""
        return Authority((*self.layers, layer))

    def offers(self, *names: str) -> bool:
        """Whether there is a tool with these names at all."""
        return all(any(matches(one, name) for one in layer.tools for name in names) for layer in self.layers)

    def may_offer(self, *starts: str) -> bool:
        """Whether there may be tools whose names begin so: some are not known before their server is asked."""
        return all(
            any(may_match_prefix(one, start) for one in layer.tools for start in starts) for layer in self.layers
        )

    def missing_grant(self, wanted: RequirementSet, variables: Mapping[str, str]) -> str | None:
        """What is wanted and not granted by every layer, in words for the model."""
        lacks = (missing_grant(layer.grant, wanted, variables) for layer in self.layers)
        return next((one for one in lacks if one is not None), None)

    def has_allow_rule(self, permission: str) -> bool:
        """Whether every layer allows something by a rule that names this permission."""
        return all(
            any(rule.permission == permission and rule.action == "allow" for rule in layer.rules)
            for layer in self.layers
            if layer.rules is not None
        )

    def explicitly_allows(self, permission: str, subject: str) -> bool:
        """Whether every layer allows this by a rule that names the permission, for what must be opened on purpose."""
        access = Access(permission, subjects=(subject,))
        answers = [decide(layer.rules, access) for layer in self.layers if layer.rules is not None]
        return bool(answers) and all(
            answer.action == "allow" and answer.rule is not None and answer.rule.permission == permission
            for answer in answers
        )

    def decide(self, access: Access) -> Decision:
        """The strictest answer of all layers."""
        answers = [decide(layer.rules, access) for layer in self.layers if layer.rules is not None]
        return strictest(answers) if answers else Decision("allow")
