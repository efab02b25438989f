"""Redact this process's own secrets from the frames that it sends (docs/protocols/mediation.md#3-who-is-who)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from pydantic import BaseModel

REDACTED = "[redacted]"
MIN_SECRET_CHARACTERS = 4
"""Characters; a shorter one would take ordinary words out of every text, and is nobody's secret."""
_WORDS = ("content", "error", "detail", "text")
"""Fields of frames that hold what a model or an error says. Ids and names are the host's own."""
Frame = TypeVar("Frame", bound=BaseModel)


class Redactor:
    """Takes secrets out of frames."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS]
        forms = {form for secret in self._secrets for form in _forms(secret)}
        self._forms = sorted(forms, key=len, reverse=True)

    def redact(self, frame: Frame) -> Frame:
        """The frame without them: in plain text, in JSON, and in JSON inside JSON."""
        if not self._forms:
            return frame
        hidden: dict[str, str] = {}
        for name in _words(type(frame)):
            text = getattr(frame, name)
            if isinstance(text, str) and (clean := self._clean(text)) != text:
                hidden[name] = clean
        return frame.model_copy(update=hidden) if hidden else frame

    def _clean(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, REDACTED)
        return text

    def split_releasable(self, text: str) -> tuple[str, str]:
        """A text that comes in pieces: what may go out, and an end that must wait for the next piece, for it could be
        the beginning of a secret."""
        held = max((_overlap(text, secret) for secret in self._secrets), default=0)
        return text[: len(text) - held], text[len(text) - held :]


@cache
def _words(kind: type[BaseModel]) -> tuple[str, ...]:
    """Those of the fields that frames of this kind have."""
    return tuple(name for name in _WORDS if name in kind.model_fields)


def _overlap(text: str, secret: str) -> int:
    """Characters at the end of the text with which the secret begins, without all of it being there."""
    for length in range(min(len(text), len(secret) - 1), 0, -1):
        if text.endswith(secret[:length]):
            return length
    return 0


def _forms(secret: str) -> set[str]:
    """As it may stand in a text; a quote or a backslash in it is escaped once more at each level."""
    forms, newest = {secret}, {secret}
    for _ in range(2):
        newest = {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in newest for ascii_only in (True, False)}
        forms |= newest
    return forms
