"""The provider's script: steps in order, or a function of the request."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from .directives import follow_directives
from .record import Recorded
from .steps import Fail, Step, step_from_json

Reply = Callable[[Recorded], Step]


class Script:
    """Steps that are used up in order, and the reply after the last one. Safe to use from several threads.

    `steps` may be a function of the request, which then answers all of them. `otherwise` is what the provider does when
    the steps have run out: a step, a function, or None for an HTTP 500 that says so. Without `steps` the provider
    follows the directives in the user's message.
    """

    def __init__(self, steps: Iterable[Step] | Reply | None = None, otherwise: Step | Reply | None = None) -> None:
        self._lock = threading.Lock()
        self._rules: list[tuple[Callable[[dict[str, Any]], bool], Step]] = []
        self.replace(steps, otherwise)

    def replace(self, steps: Iterable[Step] | Reply | None = None, otherwise: Step | Reply | None = None) -> None:
        """Replace the script by these steps."""
        reply = steps if callable(steps) else _always(otherwise)
        if steps is None and otherwise is None:
            reply = follow_directives
        with self._lock:
            self._steps = deque(() if steps is None or callable(steps) else steps)
            self._otherwise = reply
            self._rules.clear()

    def refuse(self, is_refused: Callable[[dict[str, Any]], bool], refusal: Step) -> None:
        """Answer each request whose body `is_refused` with the refusal, until the script is replaced."""
        with self._lock:
            self._rules.append((is_refused, refusal))

    def append(self, *steps: Step) -> None:
        """Add steps after the remaining ones."""
        with self._lock:
            self._steps.extend(steps)

    def next(self, request: Recorded) -> Step:
        """Return the step that answers a request."""
        with self._lock:
            for is_refused, refusal in self._rules:
                if is_refused(request.fields):
                    return refusal
            if self._steps:
                return self._steps.popleft()
            otherwise = self._otherwise
        return otherwise(request)

    @property
    def remaining(self) -> int:
        """Number of steps that have not been used."""
        return len(self._steps)

    def load(self, value: Any) -> None:
        """Load the JSON form: a list of steps, or `{"steps"?: [...], "otherwise"?: step, "append"?: true}`. Raises
        ValueError for an unknown member, pydantic's ValidationError for an invalid step."""
        described = cast(dict[str, Any], value) if isinstance(value, dict) else {"steps": value}
        unknown = described.keys() - {"steps", "otherwise", "append"}
        if unknown:
            raise ValueError(f"unknown member: {', '.join(sorted(unknown))}")
        raw = described.get("steps")
        steps = None if raw is None else [step_from_json(step) for step in raw]
        otherwise = described.get("otherwise")
        if described.get("append"):
            self.append(*steps or ())
        else:
            self.replace(steps, None if otherwise is None else step_from_json(otherwise))


def _always(step: Step | Reply | None) -> Reply:
    if step is None:
        return _out_of_steps
    return step if callable(step) else lambda _request: step


def _out_of_steps(request: Recorded) -> Step:
    return Fail(500, f"the script has run out of steps at: {request.last_user_text[:200]!r}", code="script_exhausted")
