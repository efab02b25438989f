"""The verdict of a check about one call."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.protocol import Action, NewRule


@dataclass(frozen=True, slots=True)
class Verdict:
    """A check's decision. `ask` needs a person's approval, and means deny if there is no person."""

    action: Action = "allow"
    reason: str = ""
    always: tuple[NewRule, ...] = ()
    """The rules that the decision `always` would add; for `allow`, in case another check asks."""
    touches: tuple[str, ...] | None = None
    """The resources that the call touches, if known."""
    by_person: bool = False
    """For `allow`: a person has decided so in this session."""


ALLOW = Verdict()
