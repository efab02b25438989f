"""Consulting: one question, one answer, and it is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..envelope import Envelope
from ..event_types import TURN_EVENTS
from ..expectations import Expectation, ExpectedTurn
from ..session import Participant
from ..views import FULL_TRANSCRIPT, ViewPolicy
from .base import NO_VARIABLES, Knobs, check_parties, not_their_turn, read_knobs


@dataclass(frozen=True, slots=True)
class ConsultingState:
    """Who asks, who answers, and what was said of it."""

    initiator: str
    respondent: str
    asked_by: str = ""
    """Id of the question's envelope."""
    asked_at: int = 0
    answered: bool = False


class Consulting:
    """The initiator sends one text, then the respondent one."""

    name: ClassVar[str] = "consulting"
    version: ClassVar[int] = 1
    parties: ClassVar[tuple[int, int | None]] = (2, 2)
    expectations: ClassVar[tuple[Expectation, ...]] = (
        Expectation(name="acks_within", seconds=30, on_violation="auto_close"),
        Expectation(name="reply_within", seconds=600, on_violation="auto_close"),
    )
    knobs: ClassVar[type[Knobs]] = Knobs
    state_type: ClassVar[type[Any]] = ConsultingState

    def initial_state(self, participants: tuple[Participant, ...], knobs: dict[str, Any]) -> ConsultingState:
        check_parties(self, participants)
        read_knobs(Knobs, self.name, knobs)
        return ConsultingState(participants[0].agent_id, participants[1].agent_id)

    def validate_send(self, state: ConsultingState, envelope: Envelope) -> None:
        if envelope.event_type in TURN_EVENTS and not self.can_send(state, envelope.sender_id):
            raise not_their_turn(self.name, envelope, self.expected_next(state))

    def fold(self, state: ConsultingState, envelope: Envelope) -> ConsultingState:
        if envelope.event_type not in TURN_EVENTS:
            return state
        if state.asked_by:
            return replace(state, answered=True)
        return replace(state, asked_by=envelope.envelope_id, asked_at=envelope.created_at)

    def expected_next(self, state: ConsultingState) -> ExpectedTurn | None:
        if state.answered:
            return None
        return ExpectedTurn(state.respondent if state.asked_by else state.initiator, state.asked_by, state.asked_at)

    def can_send(self, state: ConsultingState, agent_id: str) -> bool:
        turn = self.expected_next(state)
        return turn is not None and turn.agent_id == agent_id

    def end_reason(self, state: ConsultingState) -> str | None:
        return "consulting_complete" if state.answered else None

    def variables(self, state: ConsultingState) -> Mapping[str, Any]:
        return NO_VARIABLES

    def default_view_policy(self, participants: int) -> ViewPolicy:
        return FULL_TRANSCRIPT
