"""How far a turn had come when it was put away or broke off, read from its record: the log is the checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from agent_common.protocol import Usage, is_object

from ...context import Step, steps_of
from ...sessions import Message, MessageParts, completed_step_count

EGRESS_KEY = "egress_bytes"
"""In the metadata of a call's result: the bytes that it has sent out of the workspace."""
MODEL_USAGE_KEY = "model_usage"
"""In the same place: what the models that the tool asked have used."""


@dataclass(frozen=True, slots=True)
class ResumeState:
    """What is known of the steps that a turn has made."""

    past_steps: Sequence[Step] = ()
    """Steps that are done with."""
    current_step: Step | None = None
    """The latest whose model call is complete: an answer, or calls that may still be open."""
    completed_steps: int = 0
    """Model calls that are complete."""
    usage: Usage | None = None
    parts: MessageParts | None = None
    """The record, to be gone on with."""
    recorded_parts: Sequence[dict[str, Any]] = ()

    @property
    def calls(self) -> int:
        """Tool calls that have been answered."""
        steps = (*self.past_steps, *((self.current_step,) if self.current_step is not None else ()))
        return sum(len(step.calls) - len(step.open_calls) for step in steps)

    @property
    def egress(self) -> int:
        """Bytes that its tools have sent out."""
        return sum(about.get(EGRESS_KEY, 0) for about in self._metadata())

    @property
    def model_usage(self) -> Usage:
        """What the models that its tools asked have used."""
        used = (Usage.model_validate(about[MODEL_USAGE_KEY]) for about in self._metadata() if MODEL_USAGE_KEY in about)
        return reduce(Usage.plus, used, Usage())

    def _metadata(self) -> Iterator[dict[str, Any]]:
        """Of the results of its tool calls."""
        steps = (*self.past_steps, *((self.current_step,) if self.current_step is not None else ()))
        return (call.output.get("metadata", {}) for step in steps for call in step.calls if is_object(call.output))

    @classmethod
    def from_reply(cls, reply: Message, parts: MessageParts) -> ResumeState:
        steps = list(steps_of(reply.parts))[1:]  # what stands before the first step is none
        complete = completed_step_count(reply)
        usage = Usage.model_validate(reply.metadata.get("usage", {}))
        if len(steps) > complete or not complete:  # a step was begun whose model call must be made again
            return cls(steps[:complete], None, complete, usage, parts, reply.parts)
        return cls(steps[: complete - 1], steps[complete - 1], complete, usage, parts, reply.parts)
