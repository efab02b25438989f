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
    """Steps that are complete."""
    current_step: Step | None = None
    """The latest step whose model call is complete: an answer, or calls that may still be open."""
    completed_steps: int = 0
    """Number of complete model calls."""
    usage: Usage | None = None
    parts: MessageParts | None = None
    """The recorded parts, to be continued."""
    recorded_parts: Sequence[dict[str, Any]] = ()

    @property
    def calls(self) -> int:
        """Number of tool calls that have a result."""
        steps = (*self.past_steps, *((self.current_step,) if self.current_step is not None else ()))
        return sum(len(step.calls) - len(step.open_calls) for step in steps)

    @property
    def egress(self) -> int:
        """Bytes that the turn's tools have sent out of the workspace."""
        return sum(about.get(EGRESS_KEY, 0) for about in self._metadata())

    @property
    def model_usage(self) -> Usage:
        """Usage of the models that the turn's tools called."""
        used = (Usage.model_validate(about[MODEL_USAGE_KEY]) for about in self._metadata() if MODEL_USAGE_KEY in about)
        return reduce(Usage.plus, used, Usage())

    def _metadata(self) -> Iterator[dict[str, Any]]:
        """Yield the metadata of the tool results."""
        steps = (*self.past_steps, *((self.current_step,) if self.current_step is not None else ()))
        return (call.output.get("metadata", {}) for step in steps for call in step.calls if is_object(call.output))

    @classmethod
    def from_reply(cls, reply: Message, parts: MessageParts) -> ResumeState:
        steps = list(steps_of(reply.parts))[1:]  # parts before the first step are no step
        complete = completed_step_count(reply)
        usage = Usage.model_validate(reply.metadata.get("usage", {}))
        if len(steps) > complete or not complete:  # the model call of the last step is incomplete and is repeated
            return cls(steps[:complete], None, complete, usage, parts, reply.parts)
        return cls(steps[: complete - 1], steps[complete - 1], complete, usage, parts, reply.parts)
