"""The progress of a turn that was paused or interrupted, read from its recorded reply."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from agent_common.protocol import Usage, is_object

from ...context import Step, steps_of
from ...sessions import Message, MessageParts, completed_step_count

EGRESS_KEY = "egress_bytes"
"""Key in a tool result's metadata: bytes that the call has sent out of the workspace."""
MODEL_USAGE_KEY = "model_usage"
"""Key in a tool result's metadata: usage of the models that the tool called."""


@dataclass(frozen=True, slots=True)
class ResumeState:
    """The recorded steps of a turn."""

    past_steps: Sequence[Step] = ()
    """Steps whose tool calls all have results."""
    current_step: Step | None = None
    """The last recorded step, if its model call is complete. Without calls it is the final answer; its calls may have
    no result yet. None: the next model call is still to be made."""
    completed_model_calls: int = 0
    usage: Usage | None = None
    parts: MessageParts | None = None
    """The recorded parts, which the recorder continues; None: the turn is new."""
    recorded_parts: Sequence[dict[str, Any]] = ()
    """The same parts as JSON."""

    @property
    def finished_tool_calls(self) -> int:
        """How many tool calls have a result."""
        return sum(len(step.calls) - len(step.open_calls) for step in self._steps)

    @property
    def egress_bytes(self) -> int:
        """Bytes that the turn's tools have sent out of the workspace."""
        return sum(metadata.get(EGRESS_KEY, 0) for metadata in self._result_metadata())

    @property
    def model_usage(self) -> Usage:
        """Usage of the models that the turn's tools called."""
        found = [metadata[MODEL_USAGE_KEY] for metadata in self._result_metadata() if MODEL_USAGE_KEY in metadata]
        return reduce(Usage.plus, map(Usage.model_validate, found), Usage())

    @property
    def _steps(self) -> Sequence[Step]:
        return self.past_steps if self.current_step is None else (*self.past_steps, self.current_step)

    def _result_metadata(self) -> Iterator[dict[str, Any]]:
        calls = (call for step in self._steps for call in step.calls)
        return (call.output.get("metadata", {}) for call in calls if is_object(call.output))

    @classmethod
    def from_reply(cls, reply: Message, parts: MessageParts) -> ResumeState:
        steps = list(steps_of(reply.parts, reply.id))[1:]  # the first of them holds the parts before the first step
        complete = completed_step_count(reply)
        usage = Usage.model_validate(reply.metadata.get("usage", {}))
        if len(steps) > complete or not complete:  # no model call is complete, or the last is not: it is repeated
            return cls(steps[:complete], None, complete, usage, parts, reply.parts)
        return cls(steps[: complete - 1], steps[complete - 1], complete, usage, parts, reply.parts)
