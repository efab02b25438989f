"""The block of notes that the runtime adds below a user's message: the time, memories, warnings.

Models are instructed to trust the block's tag only there, so the tag is removed from all other text.
"""

from __future__ import annotations

NOTES_TAG = "runtime-notes"
NOTES_OPEN = f"<{NOTES_TAG}>"
NOTES_CLOSE = f"</{NOTES_TAG}>"


def without_notes(text: str) -> str:
    """Return a user message without its notes, as its author wrote it."""
    if not text.endswith(NOTES_CLOSE):
        return text
    own, opened, _ = text.rpartition(NOTES_OPEN)
    return own.removesuffix("\n\n") if opened else text
