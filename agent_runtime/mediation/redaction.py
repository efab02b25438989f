"""Redact this process's own secrets from the frames that it sends (docs/protocols/mediation.md#3-who-is-who)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from pydantic import BaseModel

REDACTED = "[redacted]"
MIN_SECRET_CHARACTERS = 4
"""Shorter secrets are ignored: redacting them would remove ordinary words from every text."""
_WORDS = ("content", "error", "detail", "text")
"""Fields of frames with text of a model or an error. Ids and names come from the host itself."""
Frame = TypeVar("Frame", bound=BaseModel)


class Redactor:
    """Redacts secrets in frames."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        self._secrets = [secret for secret in secrets if len(secret) >= MIN_SECRET_CHARACTERS]
        forms = {form for secret in self._secrets for form in _forms(secret)}
        self._forms = sorted(forms, key=len, reverse=True)

    def redact(self, frame: Frame) -> Frame:
        """Return the frame with redacted secrets: in plain text, in JSON, and in JSON inside JSON."""
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
        """Split a text that arrives in pieces: into the part that may be sent, and an end that must wait for the next
        piece because it could be the beginning of a secret."""
        held = max((_overlap(text, secret) for secret in self._secrets), default=0)
        return text[: len(text) - held], text[len(text) - held :]


@cache
def _words(kind: type[BaseModel]) -> tuple[str, ...]:
    """Return the text fields that frames of this type have."""
    return tuple(name for name in _WORDS if name in kind.model_fields)


def _overlap(text: str, secret: str) -> int:
    """Return the number of characters at the text's end that are an incomplete beginning of the secret."""
    for length in range(min(len(text), len(secret) - 1), 0, -1):
        if text.endswith(secret[:length]):
            return length
    return 0


def _forms(secret: str) -> set[str]:
    """Return the forms of a secret in a text; quotes and backslashes are escaped once more at each level of JSON."""
    forms, newest = {secret}, {secret}
    for _ in range(2):
        newest = {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for form in newest for ascii_only in (True, False)}
        forms |= newest
    return forms
