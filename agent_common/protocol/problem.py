"""The shape of all errors: RFC 9457 problem+json with a stable `code`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from .unknown_fields import fields_at, unknown_field

PROBLEM_JSON = "application/problem+json"
MAX_FAULTS = 20
"""Most faults of one request that are reported."""
MAX_DESCRIBED_FAULTS = 1000
"""With more faults none is described, because pydantic describes all or none, and each takes a kilobyte."""
_FIELD_CHARACTERS = 200
_MESSAGE_CHARACTERS = 500


class FieldFault(BaseModel):
    """One thing that is wrong with one field of the request."""

    model_config = ConfigDict(defer_build=True)

    field: str
    """Path of the field, as in `token_budget.max_tokens`."""
    message: str
    """What is wrong, and what is expected."""


class Problem(BaseModel):
    """Why a request was not carried out. Additional members hold a partial result."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str
    code: str
    errors: list[FieldFault] | None = None

    def body(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)


Fault = tuple[str, str]
"""The path of a field, and what is wrong with it."""


def validation_faults(error: ValidationError, shape: object = None) -> list[Fault]:
    """Describe the first faults of a request, each in a bounded text. `shape`: the type that it was to have, whose
    fields are offered for those that are misspelt."""
    count = error.error_count()
    if count > MAX_DESCRIBED_FAULTS:
        return [("body", f"has {count} faults, too many to name them; check its shape")]
    found = error.errors(include_url=False, include_context=False, include_input=False)
    shapes = [shape if number < MAX_FAULTS else None for number in range(count)]
    return limit_faults([(_path(one["loc"]), _message(one, known)) for one, known in zip(found, shapes, strict=True)])


def _path(location: tuple[int | str, ...]) -> str:
    """Return the path of a field. The tag of a union, which is in parentheses, is not part of it."""
    return ".".join(str(one) for one in location if not str(one).startswith("(")) or "body"


def limit_faults(faults: Sequence[Fault]) -> list[Fault]:
    """Return at most MAX_FAULTS faults with shortened texts. If some are left out, the last entry has their number."""
    kept = faults if len(faults) <= MAX_FAULTS else faults[: MAX_FAULTS - 1]
    entries = [(_cut(field, _FIELD_CHARACTERS), _cut(message, _MESSAGE_CHARACTERS)) for field, message in kept]
    return entries if len(kept) == len(faults) else [*entries, ("body", f"has {len(faults) - len(kept)} more faults")]


def _message(fault: ErrorDetails, shape: object) -> str:
    kind = fault["type"]
    text = fault["msg"]
    where = fault["loc"]
    if "'^[^/]*$'" in text:
        return "must not contain a slash"
    if kind == "extra_forbidden":
        return unknown_field(str(where[-1]), fields_at(shape, where[:-1]))
    return "this field is required; add it" if kind == "missing" else text.removeprefix("Value error, ")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
