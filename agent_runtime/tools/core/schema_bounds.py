"""JSON Schema under a deadline: a small schema and small arguments can be written so that checking takes for ever."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

CHECK_SECONDS = 0.5
"""What a check may take. An ordinary one takes a thousandth of it."""
WORK_SECONDS, REST_SECONDS = 0.001, 0.0005
"""Seconds: a check beside the event loop hands it the interpreter this often, and for as long."""

_work_limit: ContextVar[WorkLimit] = ContextVar("clock")

Keyword = Callable[[Any, Any, Any, Any], Iterator[Any] | None]


class WorkLimitExceeded(Exception):
    """The check was given up."""


def start_clock(*, yield_gil: bool = False) -> None:
    """Starts the clock for the check that follows. One that rests leaves the interpreter to others in between."""
    _work_limit.set(WorkLimit(time.monotonic() + CHECK_SECONDS, yield_gil))


class WorkLimit:
    """When a check is given up, and when it rests."""

    def __init__(self, deadline: float, yield_gil: bool) -> None:
        self._deadline = deadline
        self._rest_at = 0.0 if yield_gil else math.inf

    def check_time(self) -> None:
        """Raises TooLong when the time is up."""
        now = time.monotonic()
        if now > self._deadline:
            raise WorkLimitExceeded
        if now > self._rest_at:
            time.sleep(REST_SECONDS)
            self._rest_at = time.monotonic() + WORK_SECONDS


def bounded_validator() -> type[Draft202012Validator]:
    """The validator of JSON Schema 2020-12, whose errors end with TooLong when the time is up."""
    from jsonschema import Draft202012Validator, validators

    known = cast("dict[str, Keyword]", dict(Draft202012Validator.VALIDATORS))
    keywords = {name: _time_limited(keyword) for name, keyword in {**known, "uniqueItems": _check_unique_items}.items()}
    extend = cast("Callable[..., type[Draft202012Validator]]", vars(validators)["extend"])
    return extend(Draft202012Validator, keywords)


def _time_limited(keyword: Keyword) -> Keyword:
    def watched(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _work_limit.get().check_time()
        return keyword(validator, value, instance, schema) or iter(())

    return watched


def _check_unique_items(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[Any]:
    """The library's own compares each item with each other one."""
    from jsonschema import ValidationError

    if wanted and validator.is_type(instance, "array"):
        items = cast("list[Any]", instance)
        if len({json.dumps(_whole_numbers(item), sort_keys=True) for item in items}) < len(items):
            yield ValidationError("must not have an item twice")


def _whole_numbers(value: Any) -> Any:
    """To JSON Schema 1.0 is 1."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole_numbers(one) for name, one in cast("dict[str, Any]", value).items()}
    return [_whole_numbers(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value
