"""Workflow: a graph says who speaks next; a turn may hand over to somebody, or finish."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from pydantic import Field
from pydantic_core import to_json

from ...base import is_object, same_json
from ..envelope import Envelope
from ..errors import ProtocolError
from ..event_types import EV_CONTEXT_SET, EV_EXPECTATION_VIOLATED, EV_FINISH, EV_HANDOFF, TURN_EVENTS
from ..expectations import Expectation, ExpectedTurn
from ..session import Participant
from ..views import ViewPolicy
from .base import Knobs, check_parties, not_their_turn, read_knobs
from .graph import (
    Always,
    Condition,
    ContextEquals,
    FromSpeaker,
    RevertToInitiator,
    RoundRobin,
    Stay,
    Target,
    Terminate,
    TransitionGraph,
    check_graph,
)

MAX_CONTEXT = 256 << 10
"""Most bytes of the variables of a workflow as JSON, as each turn and each snapshot copies them."""


class WorkflowKnobs(Knobs):
    """What the opener of a workflow may choose."""

    graph: TransitionGraph = TransitionGraph.round_robin()
    """Who speaks next."""
    context_vars: dict[str, Any] = Field(default_factory=dict)
    """Variables at the start."""


@dataclass(frozen=True, slots=True)
class WorkflowState:
    """Whose turn it is, and what decides who is next."""

    graph: TransitionGraph
    names: dict[str, str]
    """Names to ids, in the order of participants; the creator is first."""
    speaker: str | None
    context_vars: dict[str, Any] = field(default_factory=dict[str, Any])
    turns: int = 0
    trigger: str = ""
    since: int = 0
    ended: str | None = None
    """Why it is over."""
    hidden: int = 0
    """How often the turn has passed, because somebody was late, since a turn was taken."""


class Workflow:
    """One agent has the turn; its text, handoff or finish decides with the graph who is next."""

    name: ClassVar[str] = "workflow"
    version: ClassVar[int] = 1
    parties: ClassVar[tuple[int, int | None]] = (2, None)
    expectations: ClassVar[tuple[Expectation, ...]] = (
        Expectation(name="acks_within", seconds=30, on_violation="auto_close"),
        Expectation(name="turn_within", seconds=120, on_violation="warn"),
        Expectation(name="turn_within", seconds=600, on_violation="auto_close"),
    )
    knobs: ClassVar[type[Knobs]] = WorkflowKnobs
    state_type: ClassVar[type[Any]] = WorkflowState

    def initial_state(self, participants: tuple[Participant, ...], knobs: dict[str, Any]) -> WorkflowState:
        check_parties(self, participants)
        chosen = read_knobs(WorkflowKnobs, self.name, knobs)
        names = {one.name: one.agent_id for one in participants}
        check_graph(chosen.graph, names)
        first = chosen.graph.initial_speaker
        return WorkflowState(
            chosen.graph, names, names[first] if first else participants[0].agent_id, dict(chosen.context_vars)
        )

    def validate_send(self, state: WorkflowState, envelope: Envelope) -> None:
        if envelope.event_type not in TURN_EVENTS:
            if envelope.event_type == EV_CONTEXT_SET:
                _check_updates(state, envelope.event_data)
            return
        if envelope.sender_id != state.speaker:
            raise not_their_turn(self.name, envelope, self.expected_next(state))
        _check_updates(state, envelope.event_data.get("context_updates", {}))
        target = envelope.event_data.get("target")  # without one the graph decides, by the tool
        if envelope.event_type == EV_HANDOFF and target is not None and _handed_to(state, envelope) is None:
            raise ProtocolError(
                f"event_data.target: {target!r} does not take part; those who do: {', '.join(state.names)}"
            )

    def fold(self, state: WorkflowState, envelope: Envelope) -> WorkflowState:
        kind = envelope.event_type
        data = envelope.event_data
        if kind == EV_CONTEXT_SET:
            return replace(state, context_vars=_updated(state, data))
        if kind == EV_EXPECTATION_VIOLATED:
            return self._fold_violation(state, envelope)
        if kind not in TURN_EVENTS:
            return state
        variables = _updated(state, data.get("context_updates", {}))
        state = replace(state, context_vars=variables, turns=state.turns + 1, hidden=0)
        if kind == EV_FINISH:
            return replace(state, speaker=None, ended=str(data.get("reason") or "workflow_finished")[:_MOST_REASON])
        if state.graph.max_turns is not None and state.turns >= state.graph.max_turns:
            return replace(state, speaker=None, ended="max_turns")
        following = _handed_to(state, envelope) if kind == EV_HANDOFF else None
        return _give_turn(state, following or _choose(state, envelope.sender_id, data.get("tool")), envelope)

    def _fold_violation(self, state: WorkflowState, envelope: Envelope) -> WorkflowState:
        action = envelope.event_data.get("action")
        violators = envelope.event_data.get("violators", ())
        if action not in ("hide", "remove"):
            return state
        before = state
        speaker = state.speaker
        if action == "remove":
            left = {name: one for name, one in state.names.items() if one not in violators}
            state = replace(state, names=left, hidden=0)
        if speaker is None or speaker not in violators:
            return state
        if action == "hide":
            state = replace(state, hidden=state.hidden + 1)
        chosen = _choose(before, speaker, None)
        for _ in before.names if action == "remove" else ():
            if chosen in violators:  # its turn comes, and passes to whoever follows
                chosen = _choose(before, str(chosen), None)
        if action == "remove" and chosen in violators:
            chosen = _choose(state, speaker, None)
        if isinstance(chosen, Terminate) or chosen in state.names.values():
            return _give_turn(state, chosen, envelope)
        return _give_turn(state, Terminate(reason="workflow_deserted"), envelope)

    def expected_next(self, state: WorkflowState) -> ExpectedTurn | None:
        return ExpectedTurn(state.speaker, state.trigger, state.since) if state.speaker else None

    def can_send(self, state: WorkflowState, agent_id: str) -> bool:
        return agent_id == state.speaker

    def end_reason(self, state: WorkflowState) -> str | None:
        is_deserted = 0 < len(state.names) <= state.hidden
        return state.ended or ("workflow_deserted" if is_deserted else None)

    def variables(self, state: WorkflowState) -> Mapping[str, Any]:
        return state.context_vars

    def default_view_policy(self, participants: int) -> ViewPolicy:
        return ViewPolicy(recent=max(2 * participants, 4), named=True)


_MOST_REASON = 500
"""Characters of the reason for an end, which the snapshot and the last envelope repeat."""


def _give_turn(state: WorkflowState, to: str | Terminate, envelope: Envelope) -> WorkflowState:
    if isinstance(to, Terminate):
        return replace(state, speaker=None, ended=to.reason[:_MOST_REASON])
    if to not in state.names.values():
        return replace(state, speaker=None, ended="workflow_deserted")
    return replace(state, speaker=to, trigger=envelope.envelope_id, since=envelope.created_at)


def _handed_to(state: WorkflowState, envelope: Envelope) -> str | None:
    """Id of the one whom a handoff names, by name or id; None if nobody has it."""
    target = envelope.event_data.get("target")
    if not isinstance(target, str):
        return None
    return state.names.get(target) or (target if target in state.names.values() else None)


def _choose(state: WorkflowState, speaker: str, tool: object) -> str | Terminate:
    for transition in state.graph.ordered():
        if _holds(transition.when, state, speaker, tool):
            return _resolve(transition.then, state, speaker)
    return _resolve(state.graph.default_target, state, speaker)


def _holds(condition: Condition, state: WorkflowState, speaker: str, tool: object) -> bool:
    if isinstance(condition, Always):
        return True
    if isinstance(condition, FromSpeaker):
        return state.names.get(condition.agent) == speaker
    if isinstance(condition, ContextEquals):
        known = state.context_vars
        return condition.key in known and same_json(known[condition.key], condition.value)
    return condition.tool == tool


def _resolve(target: Target, state: WorkflowState, speaker: str) -> str | Terminate:
    if isinstance(target, Terminate):
        return target
    if isinstance(target, Stay):
        return speaker
    order = tuple(state.names.values())
    if isinstance(target, RoundRobin):
        return order[(order.index(speaker) + 1) % len(order)] if speaker in order else _first(order)
    if isinstance(target, RevertToInitiator):
        return _first(order)
    return state.names.get(target.agent) or Terminate(reason="workflow_deserted")


def _first(order: tuple[str, ...]) -> str | Terminate:
    return order[0] if order else Terminate(reason="workflow_deserted")


def _read_updates(data: object) -> tuple[dict[str, Any], list[str]]:
    """What `{set, delete}` changes. Raises ProtocolError."""
    put: Any = data.get("set", {}) if is_object(data) else None
    gone: Any = data.get("delete", []) if is_object(data) else None
    if not is_object(put) or not isinstance(gone, list):
        raise ProtocolError('context_updates: must be {"set": {name: value}, "delete": [name]}')
    return put, cast("list[str]", gone)


def _check_updates(state: WorkflowState, data: object) -> None:
    """Raise ProtocolError unless these changes can be made."""
    put, _ = _read_updates(data)
    if put and (size := len(to_json(_updated(state, data)))) > MAX_CONTEXT:
        raise ProtocolError(f"context_updates: the variables may have {MAX_CONTEXT} bytes, and would have {size}")


def _updated(state: WorkflowState, data: object) -> dict[str, Any]:
    put, gone = _read_updates(data)
    if not put and not gone:
        return state.context_vars
    names = {name for name in gone if type(name) is str}  # the log may hold what is no name
    return {key: value for key, value in {**state.context_vars, **put}.items() if key not in names}
