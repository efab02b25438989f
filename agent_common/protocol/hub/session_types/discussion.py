"""Discussion: two or more agents take turns, in the order in which they were named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from ..envelope import Envelope
from ..event_types import EV_EXPECTATION_VIOLATED, TURN_EVENTS
from ..expectations import Expectation, ExpectedTurn
from ..session import Participant
from ..views import ViewPolicy
from .base import NO_VARIABLES, Knobs, check_parties, not_their_turn, read_knobs


class DiscussionKnobs(Knobs):
    """What the opener of a discussion may choose."""

    ordering: Literal["round_robin"] = "round_robin"
    """The creator first, then the others as they were named, and so on."""


@dataclass(frozen=True, slots=True)
class DiscussionState:
    """Who takes turns, and whose it is."""

    order: tuple[str, ...]
    at: int = 0
    """Place in the order."""
    trigger: str = ""
    since: int = 0
    hidden: int = 0
    """Number of agents whose turn has passed since an agent last took its turn."""

    @property
    def speaker(self) -> str | None:
        return self.order[self.at] if self.order else None


class Discussion:
    """Round robin, beginning with the creator, until somebody closes it or it expires."""

    name: ClassVar[str] = "discussion"
    version: ClassVar[int] = 1
    parties: ClassVar[tuple[int, int | None]] = (2, None)
    expectations: ClassVar[tuple[Expectation, ...]] = (
        Expectation(name="acks_within", seconds=30, on_violation="auto_close"),
        Expectation(name="turn_within", seconds=120, on_violation="warn"),
        Expectation(name="turn_within", seconds=600, on_violation="hide"),
    )
    knobs: ClassVar[type[Knobs]] = DiscussionKnobs
    state_type: ClassVar[type[Any]] = DiscussionState

    def initial_state(self, participants: tuple[Participant, ...], knobs: dict[str, Any]) -> DiscussionState:
        check_parties(self, participants)
        read_knobs(DiscussionKnobs, self.name, knobs)
        return DiscussionState(tuple(one.agent_id for one in participants))

    def validate_send(self, state: DiscussionState, envelope: Envelope) -> None:
        if envelope.event_type in TURN_EVENTS and envelope.sender_id != state.speaker:
            raise not_their_turn(self.name, envelope, self.expected_next(state))

    def fold(self, state: DiscussionState, envelope: Envelope) -> DiscussionState:
        if envelope.event_type in TURN_EVENTS:
            return _pass_on(state, envelope)
        if envelope.event_type == EV_EXPECTATION_VIOLATED:
            action = envelope.event_data.get("action")
            violators = envelope.event_data.get("violators", ())
            if action == "hide" and state.speaker in violators:
                return replace(_pass_on(state, envelope), hidden=state.hidden + 1)
            if action == "remove":
                return _without(state, violators, envelope)
        return state

    def expected_next(self, state: DiscussionState) -> ExpectedTurn | None:
        return ExpectedTurn(state.speaker, state.trigger, state.since) if state.speaker else None

    def can_send(self, state: DiscussionState, agent_id: str) -> bool:
        return agent_id == state.speaker

    def end_reason(self, state: DiscussionState) -> str | None:
        left = len(state.order)
        return "discussion_deserted" if left < 2 or state.hidden >= left else None

    def variables(self, state: DiscussionState) -> Mapping[str, Any]:
        return NO_VARIABLES

    def default_view_policy(self, participants: int) -> ViewPolicy:
        return ViewPolicy(recent=max(2 * participants, 4), named=True)


def _pass_on(state: DiscussionState, envelope: Envelope) -> DiscussionState:
    at = (state.at + 1) % len(state.order)
    return DiscussionState(state.order, at, envelope.envelope_id, envelope.created_at)


def _without(state: DiscussionState, gone: list[str], envelope: Envelope) -> DiscussionState:
    """The state without some. If one of them had the turn, it is that of the next who is left."""
    left = tuple(one for one in state.order if one not in gone)
    turn = next((one for one in (*state.order[state.at :], *state.order) if one in left), None)
    at = left.index(turn) if turn is not None else 0
    if turn == state.speaker:
        return DiscussionState(left, at, state.trigger, state.since)
    return DiscussionState(left, at, envelope.envelope_id, envelope.created_at)
