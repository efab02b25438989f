"""What a session type is: pure functions over a state, which is folded from the envelopes of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeVar

from pydantic import Field, ValidationError

from ...base import Inbound
from ...problem import validation_faults
from ..envelope import Envelope
from ..errors import ProtocolError
from ..expectations import Expectation, ExpectedTurn
from ..session import Participant
from ..views import ViewPolicy

State = TypeVar("State")
KnobsType = TypeVar("KnobsType", bound="Knobs")


NO_VARIABLES: Mapping[str, Any] = {}
"""Those of a type whose participants set none."""


class Knobs(Inbound):
    """What the opener of a session may choose."""

    expectations: tuple[Expectation, ...] | None = Field(default=None, strict=False, max_length=20)
    """In the place of those of the session's type."""


class SessionType(Protocol[State]):
    """The rules of one type of session. Nothing here changes anything or waits."""

    name: ClassVar[str]
    version: ClassVar[int]
    parties: ClassVar[tuple[int, int | None]]
    """Fewest and most participants."""
    expectations: ClassVar[tuple[Expectation, ...]]
    """What it expects, unless the opener says otherwise."""
    knobs: ClassVar[type[Knobs]]
    state_type: ClassVar[type[Any]]
    """The class of its states, by which a stored one is read."""

    def initial_state(self, participants: tuple[Participant, ...], knobs: dict[str, Any]) -> State:
        """The state of a new session. Raises ProtocolError if it cannot be opened so."""
        ...

    def validate_send(self, state: State, envelope: Envelope) -> None:
        """Raise ProtocolError unless the session allows this envelope now."""
        ...

    def fold(self, state: State, envelope: Envelope) -> State:
        """The state after an envelope of the log."""
        ...

    def expected_next(self, state: State) -> ExpectedTurn | None:
        """Whose turn it is; None: nobody's, or everybody's."""
        ...

    def can_send(self, state: State, agent_id: str) -> bool:
        """Whether a text of this participant would be allowed now."""
        ...

    def end_reason(self, state: State) -> str | None:
        """Why the session is over by its own rules; None: it is not."""
        ...

    def variables(self, state: State) -> Mapping[str, Any]:
        """What participants have set, for a hub to bound; the same object as long as nothing of it changes."""
        ...

    def default_view_policy(self, participants: int) -> ViewPolicy:
        """How participants see what was said, unless they choose another way."""
        ...


def read_knobs(kind: type[KnobsType], session_type: str, knobs: dict[str, Any]) -> KnobsType:
    """Check knobs. Raises ProtocolError, which names those that are wrong."""
    try:
        return kind.model_validate(knobs, strict=False)
    except ValidationError as error:
        faults = "; ".join(f"knobs.{field}: {message}" for field, message in validation_faults(error)[:5])
        raise ProtocolError(f"{session_type}: {faults}") from error


def check_parties(session_type: SessionType[Any], participants: tuple[Participant, ...]) -> None:
    """Raise ProtocolError if the number of participants does not fit the type."""
    fewest, most = session_type.parties
    count = len(participants)
    if count < fewest or (most is not None and count > most):
        wanted = f"{fewest}" if fewest == most else f"at least {fewest}" if most is None else f"{fewest} to {most}"
        raise ProtocolError(f"{session_type.name}: needs {wanted} participants, the creator included, and has {count}")
    ids = [one.agent_id for one in participants]
    if len(set(ids)) < len(ids):
        raise ProtocolError(f"{session_type.name}: target: an agent is named twice, or is the creator")


def not_their_turn(session_type: str, envelope: Envelope, turn: ExpectedTurn | None) -> ProtocolError:
    """The error for a turn of somebody whose turn it is not."""
    whose = f"it is the turn of {turn.agent_id}" if turn else "nobody has a turn any more"
    return ProtocolError(f"{session_type}: it is not the turn of {envelope.sender_id}; {whose}")
