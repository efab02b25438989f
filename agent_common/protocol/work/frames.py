"""Find the shape of a JSON object; exactly one must match (docs/protocols/mediation.md#21-shapes)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from pydantic import ValidationError

from .control import CONTROLS, Control
from .messages import ConstraintAck, Constraints, IdentityRevision, LifecycleSignal, WorkRequest, WorkResult

MAX_MEMBERS = 10_000
"""Most fields and items of a frame, including nested ones. Each may be a fault, whose description takes a kilobyte."""
_LEVELS = 3
"""Depth to which the shapes are nested."""
Base = WorkRequest | WorkResult | LifecycleSignal | Constraints | ConstraintAck | IdentityRevision


@dataclass(frozen=True, slots=True)
class UnknownControl:
    """A control frame of a kind that this version does not know."""

    ctl: str


WorkFrame = Base | Control | UnknownControl


class FrameFault(ValueError):
    """A line that is not a valid frame. `code` is stable; the text says what is wrong and how to correct it."""

    def __init__(self, code: str, text: str, request_id: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.request_id = request_id
        """The request that the frame names, if that could be read, else None."""


_Names = frozenset[str]
_SHAPES: tuple[tuple[type[Base] | None, _Names, _Names], ...] = (
    (None, frozenset({"ctl"}), frozenset()),
    (LifecycleSignal, frozenset({"signal"}), frozenset()),
    (WorkRequest, frozenset({"principal"}), frozenset()),
    (WorkResult, frozenset({"request_id"}), frozenset({"status", "ok"})),
    (Constraints, frozenset({"payload_ref"}), frozenset()),
    (IdentityRevision, frozenset({"mutation_ref"}), frozenset()),
    (ConstraintAck, frozenset({"version", "hash", "observed_at"}), frozenset()),
)
"""For each shape, the fields that it always has, and fields of which it has at least one."""
_TELLING = frozenset[str]().union(*(names for _, *both in _SHAPES for names in both))


def frame_type(value: dict[str, Any]) -> type[Base] | None:
    """Return the object's shape, or None for a control frame. Raises FrameFault if no shape or several match."""
    found = _matching_types(_TELLING.intersection(value))
    if len(found) == 1:
        return found[0]
    keys = ", ".join(sorted(printable_name(key, 40) for key in list(value)[:12])) or "nothing"
    if not found:
        text = f"no known shape has the fields {keys}"
        raise FrameFault("unknown_shape", text, _id_in(value))
    names = " and ".join(shape.__name__ if shape else "a control frame" for shape in found)
    raise FrameFault("ambiguous_shape", f"the fields {keys} are those of {names}: send one of them", _id_in(value))


@lru_cache(256)
def _matching_types(names: _Names) -> tuple[type[Base] | None, ...]:
    """Return the shapes with these fields. Cached by known field names only, so a peer cannot fill the cache."""
    return tuple(shape for shape, every, some in _SHAPES if every <= names and (not some or some & names))


def read_frame(value: dict[str, Any]) -> WorkFrame:
    """Validate an object as a frame of the strict dialect. Raises FrameFault if it is not one."""
    shape = frame_type(value)
    if shape is None:
        return _control(value)
    return validate_frame(shape, value)


def validate_frame(shape: type[Base], value: dict[str, Any]) -> Base:
    """Validate an object as the given shape. Raises FrameFault that names the field and how to correct it."""
    _check_members(value)
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        raise _fault(shape.__name__, error, value) from None


def _control(value: dict[str, Any]) -> Control | UnknownControl:
    name = value["ctl"]
    if not isinstance(name, str):
        raise FrameFault("invalid_control", "ctl: must be a string")
    kind = CONTROLS.get(name)
    if kind is None:
        return UnknownControl(name[:200])
    _check_members(value)
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise _fault(f"the control frame {name}", error, value) from None


def _check_members(value: dict[str, Any]) -> None:
    """Raise FrameFault if the frame has so many members that describing all their faults would take too long."""
    if _members(value, _LEVELS) > MAX_MEMBERS:
        raise FrameFault("invalid_frame", f"the frame has more than {MAX_MEMBERS} fields and items", _id_in(value))


def _members(value: object, levels: int) -> int:
    """Count the fields and items of an object or array down to `levels`. Parts of a large one are not counted."""
    if not levels or not isinstance(value, dict | list):
        return 0
    parts = list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else cast("list[Any]", value)
    count = len(parts)
    return count if count > MAX_MEMBERS else count + sum(_members(part, levels - 1) for part in parts)


def _fault(name: str, error: ValidationError, value: dict[str, Any]) -> FrameFault:
    first = error.errors(include_url=False, include_context=False)[0]
    where = ".".join(printable_name(str(part)) for part in first["loc"]) or "value"
    return FrameFault("invalid_frame", f"{name}: {where}: {first['msg']}"[:1000], _id_in(value))


def printable_name(name: str, limit: int = 100) -> str:
    """Return a name from a peer in a form for our own texts: short, on one line, and without lone surrogates."""
    clean = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in name[:limit])
    return clean if len(name) <= limit else f"{clean}..."


def _id_in(value: dict[str, Any]) -> str | None:
    found: Any = value.get("request_id")
    return found if isinstance(found, str) and 0 < len(found) <= 200 and found.isprintable() else None
