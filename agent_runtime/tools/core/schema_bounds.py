"""Limit the time of JSON Schema checks, because small schemas and arguments can be written to take forever."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from .linear_patterns import UnsupportedPattern, compile_pattern

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

CHECK_SECONDS = 0.5
"""Maximum seconds of a check. An ordinary one takes a thousandth of that."""
WORK_SECONDS = 0.001
REST_SECONDS = 0.0005
"""Seconds between pauses, and of each pause, by which a check in a thread yields the GIL to the event loop."""

_work_limit: ContextVar[WorkLimit] = ContextVar("clock")

Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


class WorkLimitExceeded(Exception):
    """Raised if a check exceeds its time."""


def start_clock(*, yield_gil: bool = False) -> WorkLimit:
    """Start the time limit of the following check. With `yield_gil` it pauses regularly for other threads."""
    limit = WorkLimit(time.monotonic() + CHECK_SECONDS, yield_gil)
    _work_limit.set(limit)
    return limit


class WorkLimit:
    """The deadline of a check, and its next pause."""

    def __init__(self, deadline: float, yield_gil: bool) -> None:
        self._deadline = deadline
        self._rest_at = 0.0 if yield_gil else math.inf

    def check_time(self) -> None:
        """Pause if it is time to. Raises WorkLimitExceeded after the deadline."""
        now = time.monotonic()
        if now > self._deadline:
            raise WorkLimitExceeded
        if now > self._rest_at:
            time.sleep(REST_SECONDS)
            self._rest_at = time.monotonic() + WORK_SECONDS


def bounded_validator() -> type[Draft202012Validator]:
    """Return a validator of JSON Schema 2020-12 that raises WorkLimitExceeded after the deadline."""
    from jsonschema import Draft202012Validator, validators

    known = cast("dict[str, Keyword]", dict(Draft202012Validator.VALIDATORS))
    bounded = {**known, "uniqueItems": _check_unique_items, "pattern": _linear_pattern(known["pattern"])}
    keywords = {name: _time_limited(keyword) for name, keyword in bounded.items()}
    extend = cast("Callable[..., type[Draft202012Validator]]", vars(validators)["extend"])
    return extend(Draft202012Validator, keywords)


def _time_limited(keyword: Keyword) -> Keyword:
    def watched(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _work_limit.get().check_time()
        return keyword(validator, value, instance, schema) or iter(())

    return watched


def _linear_pattern(by_python: Keyword) -> Keyword:
    """Check `pattern` in linear time. A skill's pattern that needs look-around or the like is left to Python."""

    def check(validator: Any, pattern: Any, instance: Any, schema: Any) -> Iterator[Any] | None:
        if not validator.is_type(instance, "string"):
            return None
        try:
            return _pattern_errors(pattern, instance)
        except UnsupportedPattern:
            return by_python(validator, pattern, instance, schema)

    return check


def _pattern_errors(pattern: str, text: str) -> Iterator[Any]:
    """Return the error of a text that does not match, if there is one. Raises UnsupportedPattern."""
    from jsonschema import ValidationError

    compiled = compile_pattern(pattern)
    if len(text) > (most := compiled.max_characters):
        return iter((ValidationError(f"is too long to match the pattern {pattern}: at most {most} characters"),))
    return iter(() if compiled.occurs_in(text) else (ValidationError(f"must match the pattern {pattern}"),))


def _check_unique_items(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
    """Check `uniqueItems` in linear time; the library compares every pair of items."""
    from jsonschema import ValidationError

    if wanted and validator.is_type(instance, "array"):
        items = cast("list[Any]", instance)
        if len({json.dumps(_whole_numbers(item), sort_keys=True) for item in items}) < len(items):
            yield ValidationError("must not have an item twice")


def _whole_numbers(value: Any) -> Any:
    """Convert whole floats to integers, because 1.0 equals 1 in JSON Schema."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole_numbers(one) for name, one in cast("dict[str, Any]", value).items()}
    return [_whole_numbers(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value
