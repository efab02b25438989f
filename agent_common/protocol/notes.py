"""The block below a user's message in which the runtime notes what holds at that moment: the time, what it remembers,
what to be careful of. Models are told to believe it there and nowhere else, so nobody else may write its tag."""

from __future__ import annotations

NOTES_TAG = "runtime-notes"
NOTES_OPEN, NOTES_CLOSE = f"<{NOTES_TAG}>", f"</{NOTES_TAG}>"


def without_notes(text: str) -> str:
    """A user message as its author wrote it: who answers by a person's words must not take the notes for them."""
    if not text.endswith(NOTES_CLOSE):
        return text
    own, opened, _ = text.rpartition(NOTES_OPEN)
    return own.removesuffix("\n\n") if opened else text
