"""The graph of a workflow: who speaks next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field

from ...base import Inbound
from ..errors import WorkflowGraphError


class Always(Inbound):
    """Holds for each turn."""

    kind: Literal["always"] = "always"


class FromSpeaker(Inbound):
    """Holds for turns of one agent."""

    kind: Literal["from_speaker"] = "from_speaker"
    agent: str
    """Its name."""


class ToolCalled(Inbound):
    """Holds for a turn whose data names this tool."""

    kind: Literal["tool_called"] = "tool_called"
    tool: str


class ContextEquals(Inbound):
    """Holds while a variable has this value."""

    kind: Literal["context_equals"] = "context_equals"
    key: str
    value: Any


class ToAgent(Inbound):
    """One agent."""

    kind: Literal["agent"] = "agent"
    agent: str
    """Its name."""


class RoundRobin(Inbound):
    """The next in the order of participants."""

    kind: Literal["round_robin"] = "round_robin"


class Stay(Inbound):
    """The same agent again."""

    kind: Literal["stay"] = "stay"


class RevertToInitiator(Inbound):
    """The creator of the session."""

    kind: Literal["revert_to_initiator"] = "revert_to_initiator"


class Terminate(Inbound):
    """Nobody: the workflow is over."""

    kind: Literal["terminate"] = "terminate"
    reason: str = "workflow_complete"


Condition = Annotated[Always | FromSpeaker | ToolCalled | ContextEquals, Field(discriminator="kind")]
Target = Annotated[ToAgent | RoundRobin | Stay | RevertToInitiator | Terminate, Field(discriminator="kind")]


class Transition(Inbound):
    """Who is next if a condition holds."""

    when: Condition
    then: Target
    priority: int = 0
    """The lowest number is tried first; of equal ones, the first in the list."""


class TransitionGraph(Inbound):
    """Who speaks first, and who after each turn."""

    initial_speaker: str | None = None
    """Name of the first; null: the creator."""
    transitions: tuple[Transition, ...] = Field(default=(), strict=False, max_length=1000)
    """Tried in the order of their priority."""
    default_target: Target = Terminate()
    """Who is next if no condition holds."""
    max_turns: int | None = Field(default=None, ge=1)
    """Turns after which the workflow is over; null: no limit."""

    @classmethod
    def round_robin(cls, max_turns: int | None = None) -> TransitionGraph:
        """Everybody in the order of participants, again and again."""
        return cls(default_target=RoundRobin(), max_turns=max_turns)

    @classmethod
    def sequence(cls, *names: str) -> TransitionGraph:
        """Each of these once, then it is over."""
        steps = pairwise(names)
        transitions = tuple(Transition(when=FromSpeaker(agent=one), then=ToAgent(agent=after)) for one, after in steps)
        return cls(initial_speaker=names[0] if names else None, transitions=transitions)

    def ordered(self) -> Sequence[Transition]:
        """The transitions in the order in which they are tried."""
        return sorted(self.transitions, key=lambda one: one.priority)


def check_graph(graph: TransitionGraph, names: Mapping[str, str]) -> None:
    """Raise WorkflowGraphError if the graph names an agent that does not take part. `names`: names to ids."""
    if graph.initial_speaker is not None:
        _check_name("initial_speaker", graph.initial_speaker, names)
    for at, transition in enumerate(graph.transitions):
        if isinstance(transition.when, FromSpeaker):
            _check_name(f"transitions.{at}.when.agent", transition.when.agent, names)
        if isinstance(transition.then, ToAgent):
            _check_name(f"transitions.{at}.then.agent", transition.then.agent, names)
    if isinstance(graph.default_target, ToAgent):
        _check_name("default_target.agent", graph.default_target.agent, names)


def _check_name(field: str, name: str, names: Mapping[str, str]) -> None:
    if name not in names:
        raise WorkflowGraphError(f"knobs.graph.{field}: {name} does not take part; those who do: {', '.join(names)}")
