"""Conversation: two agents, either of whom may send at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..envelope import Envelope
from ..expectations import Expectation, ExpectedTurn
from ..session import Participant
from ..views import ViewPolicy
from .base import NO_VARIABLES, Knobs, check_parties, read_knobs


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The two."""

    members: tuple[str, ...]


class Conversation:
    """Two agents without turns, until one of them closes it or it expires."""

    name: ClassVar[str] = "conversation"
    version: ClassVar[int] = 1
    parties: ClassVar[tuple[int, int | None]] = (2, 2)
    expectations: ClassVar[tuple[Expectation, ...]] = (
        Expectation(name="max_silence", seconds=3600, on_violation="audit"),
    )
    knobs: ClassVar[type[Knobs]] = Knobs
    state_type: ClassVar[type[Any]] = ConversationState

    def initial_state(self, participants: tuple[Participant, ...], knobs: dict[str, Any]) -> ConversationState:
        check_parties(self, participants)
        read_knobs(Knobs, self.name, knobs)
        return ConversationState(tuple(one.agent_id for one in participants))

    def validate_send(self, state: ConversationState, envelope: Envelope) -> None:
        return

    def fold(self, state: ConversationState, envelope: Envelope) -> ConversationState:
        return state

    def expected_next(self, state: ConversationState) -> ExpectedTurn | None:
        return None

    def can_send(self, state: ConversationState, agent_id: str) -> bool:
        return agent_id in state.members

    def end_reason(self, state: ConversationState) -> str | None:
        return None

    def variables(self, state: ConversationState) -> Mapping[str, Any]:
        return NO_VARIABLES

    def default_view_policy(self, participants: int) -> ViewPolicy:
        return ViewPolicy(recent=10)
