"""Tell which shape a JSON object has: exactly one must fit (docs/protocols/mediation.md#21-shapes)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from pydantic import ValidationError

from .control import CONTROLS, Control
from .messages import ConstraintAck, Constraints, IdentityRevision, LifecycleSignal, WorkRequest, WorkResult

MAX_MEMBERS = 10_000
"""Fields and items of a frame, those of its parts included: each may be a fault, which takes a kilobyte to describe."""
_LEVELS = 3
"""How deep our shapes are nested."""
Base = WorkRequest | WorkResult | LifecycleSignal | Constraints | ConstraintAck | IdentityRevision


@dataclass(frozen=True, slots=True)
class UnknownControl:
    """An extension that is younger than we are."""

    ctl: str


WorkFrame = Base | Control | UnknownControl


class FrameFault(ValueError):
    """A line that is no frame. `code` is stable; the text says what is wrong with it and how to mend it."""

    def __init__(self, code: str, text: str, request_id: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.request_id = request_id
        """What it was about, if that much could be read."""


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
"""Each has all of these fields, and one at least of those."""
_TELLING = frozenset[str]().union(*(names for _, *both in _SHAPES for names in both))


def frame_type(value: dict[str, Any]) -> type[Base] | None:
    """The shape that the object is, or none for a control frame. Raises FrameFault when none or several fit."""
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
    """Remembered by nothing but names of ours: what a peer makes up takes no room."""
    return tuple(shape for shape, every, some in _SHAPES if every <= names and (not some or some & names))


def read_frame(value: dict[str, Any]) -> WorkFrame:
    """The frame that the object is, in the strict dialect. Raises FrameFault."""
    shape = frame_type(value)
    if shape is None:
        return _control(value)
    return validate_frame(shape, value)


def validate_frame(shape: type[Base], value: dict[str, Any]) -> Base:
    """Raises FrameFault that names the field and the fix."""
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
    """Raises FrameFault for a frame that could have very many faults."""
    if _members(value, _LEVELS) > MAX_MEMBERS:
        raise FrameFault("invalid_frame", f"the frame has more than {MAX_MEMBERS} fields and items", _id_in(value))


def _members(value: object, levels: int) -> int:
    """Fields and items of an object or array, with those of its parts down to some levels unless it has many itself."""
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
    """A peer's name as a text of ours may hold it: short, on one line, and without what cannot be encoded."""
    clean = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in name[:limit])
    return clean if len(name) <= limit else f"{clean}..."


def _id_in(value: dict[str, Any]) -> str | None:
    found: Any = value.get("request_id")
    return found if isinstance(found, str) and 0 < len(found) <= 200 and found.isprintable() else None
