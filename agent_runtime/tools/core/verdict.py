"""What a check says about one call."""

from __future__ import annotations

from dataclasses import dataclass

from agent_common.protocol import Action, NewRule


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ask` waits for a person's approval, and means deny wherever none is attached."""

    action: Action = "allow"
    reason: str = ""
    always: tuple[NewRule, ...] = ()
    """The rules that an approval for good would add; of an `allow`: if somebody else asks."""
    touches: tuple[str, ...] | None = None
    """What the call touches, where that is known."""
    by_person: bool = False
    """Of an `allow`: a person has said so in this session."""


ALLOW = Verdict()
