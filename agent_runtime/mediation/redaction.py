"""Redact this process's own secrets from the frames that it sends (docs/protocols/mediation.md#3-who-is-who)."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel

from agent_common.redaction import Redactor

_TEXT_FIELDS = ("content", "error", "detail", "text")
"""Fields of frames that hold what a model or an error says. Ids and names are the host's own."""
Frame = TypeVar("Frame", bound=BaseModel)


def redact_frame(frame: Frame, redactor: Redactor) -> Frame:
    """Return the frame without the secrets in its texts."""
    changed: dict[str, str] = {}
    for name in _TEXT_FIELDS:
        text = getattr(frame, name) if name in type(frame).model_fields else None
        if isinstance(text, str) and (clean := redactor.redact(text)) != text:
            changed[name] = clean
    return frame.model_copy(update=changed) if changed else frame
