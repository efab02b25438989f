"""Redact this process's own secrets from the frames that it sends (docs/protocols/mediation.md#3-who-is-who)."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from pydantic import BaseModel

from agent_common.protocol.work import TaskReport
from agent_common.redaction import Redactor

_TEXT_FIELDS = ("content", "error", "detail", "text")
"""Fields of frames that hold what a model or an error says. Ids and names are the host's own."""
_RESULT_FIELDS = ("result", "error", "promote_to_blackboard")
"""Fields of a task's result that hold the same."""
Frame = TypeVar("Frame", bound=BaseModel)


def redact_frame(frame: Frame, redactor: Redactor) -> Frame:
    """Return the frame without the secrets in its texts."""
    changed: dict[str, str] = {}
    for name in _TEXT_FIELDS:
        text = getattr(frame, name) if name in type(frame).model_fields else None
        if isinstance(text, str) and (clean := redactor.redact(text)) != text:
            changed[name] = clean
    if isinstance(frame, TaskReport):
        clean_fields = {name: _redact_value(getattr(frame.result, name), redactor) for name in _RESULT_FIELDS}
        return frame.model_copy(update={"result": frame.result.model_copy(update=clean_fields)})
    return frame.model_copy(update=changed) if changed else frame


def _redact_value(value: Any, redactor: Redactor) -> Any:
    """Return JSON without the secrets in its strings and keys."""
    if isinstance(value, str):
        return redactor.redact(value)
    if isinstance(value, dict):
        return {
            redactor.redact(name): _redact_value(one, redactor) for name, one in cast("dict[str, Any]", value).items()
        }
    return [_redact_value(one, redactor) for one in cast("list[Any]", value)] if isinstance(value, list) else value
