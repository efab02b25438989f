"""Rules and findings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from agent_testing.channel import ExpectationFailed

B = TypeVar("B")
State = Literal["passed", "failed", "skipped"]


class RuleBroken(ExpectationFailed):
    """The other side broke the rule; the text says what was seen."""


class NotApplicable(Exception):
    """The rule does not apply to this side, or cannot be tried now; the text says why."""


@dataclass(frozen=True, slots=True)
class ConformanceRule(Generic[B]):
    """One rule of the protocol, and the function that tries it."""

    id: str
    """Stable: `A..` for agents, `L..` for listeners, `H..` for hubs. A number is never reused."""
    text: str
    section: str
    """The section that the rule is from: its number in docs/protocols/mediation.md, such as `2.4`, or its heading in
    docs/protocols/hub.md."""
    loose: bool
    """True if the rule also holds in the loose dialect (docs/protocols/mediation.md#11-two-dialects)."""
    check: Callable[[B], Awaitable[str | None]]
    """Returns what was seen when the rule was kept. Raises RuleBroken or NotApplicable."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one rule."""

    id: str
    text: str
    section: str
    state: State
    seen: str


Check = Callable[[B], Awaitable[str | None]]


class ConformanceRules(Generic[B]):
    """A list of rules, to which the decorator `rule` adds functions."""

    def __init__(self) -> None:
        self.all: list[ConformanceRule[B]] = []

    def rule(self, name: str, section: str, text: str, *, loose: bool = False) -> Callable[[Check[B]], Check[B]]:
        """Add the decorated function to the list."""

        def add(check: Check[B]) -> Check[B]:
            self.all.append(ConformanceRule(name, text, section, loose, check))
            return check

        return add
