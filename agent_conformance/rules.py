"""What a rule is, and what became of one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from agent_testing.channel import ExpectationFailed

B = TypeVar("B")
State = Literal["passed", "failed", "skipped"]


class RuleBroken(ExpectationFailed):
    """The other side did not keep the rule; the text says what was seen."""


class NotApplicable(Exception):
    """The rule cannot be held against this side, or not now; the text says why."""


@dataclass(frozen=True, slots=True)
class ConformanceRule(Generic[B]):
    """One promise of the protocol, and how it is tried out."""

    id: str
    """Stable: `A..` for agents, `L..` for listeners. A number is never used again for something else."""
    text: str
    section: str
    """Number of the section of docs/protocols/mediation.md that the rule is from, such as `2.4`."""
    loose: bool
    """True if the rule also holds in the loose dialect (docs/protocols/mediation.md#11-two-dialects)."""
    check: Callable[[B], Awaitable[str | None]]
    """Returns what was seen when the rule was kept. Raises RuleBroken or NotApplicable."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one rule."""

    id: str
    text: str
    section: str
    state: State
    seen: str


Check = Callable[[B], Awaitable[str | None]]


class ConformanceRules(Generic[B]):
    """A list of rules that functions are put on."""

    def __init__(self) -> None:
        self.all: list[ConformanceRule[B]] = []

    def rule(self, name: str, section: str, text: str, *, loose: bool = False) -> Callable[[Check[B]], Check[B]]:
        """Puts the function on the list."""

        def put(check: Check[B]) -> Check[B]:
            self.all.append(ConformanceRule(name, text, section, loose, check))
            return check

        return put
