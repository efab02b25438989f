"""JSON Schemas of all frames of the channel, for people who implement another end."""

from __future__ import annotations

from typing import Any

from .control import CONTROLS, Control
from .messages import ConstraintAck, Constraints, IdentityRevision, LifecycleSignal, WorkRequest, WorkResult

SHAPES = (WorkRequest, WorkResult, LifecycleSignal, Constraints, ConstraintAck, IdentityRevision)


def work_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema (draft 2020-12) of each base shape, and of each control frame as `ctl-NAME`, by name."""
    shapes = {shape.__name__: shape.model_json_schema() for shape in SHAPES}
    return shapes | {f"ctl-{name}": _of_control(kind) for name, kind in CONTROLS.items()}


def _of_control(kind: type[Control]) -> dict[str, Any]:
    schema = kind.model_json_schema()
    return {
        **schema,
        "properties": {"ctl": {"const": kind.ctl, "type": "string"}, **schema["properties"]},
        "required": ["ctl", *schema.get("required", ())],
    }
