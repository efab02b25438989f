"""What the model is warned of below a user's message: each thing once in a session, and again when it comes back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent_common.protocol import SkillState

from ...ports import Note, NoteContext

WARN_FILL_SHARE = 0.8
"""Of what is usable of a window: from there on it is worth a warning."""
MAX_SKILLS = 5
"""Broken skills that are told of at once."""
MAX_FAULT_CHARACTERS = 500
"""Characters of what is wrong with one of them."""
MAX_SESSIONS = 4096
"""That are remembered; of the one that spoke longest ago it is forgotten what it was told."""


@dataclass(frozen=True, slots=True)
class Warnings:
    """Fills ports.NoteTaker: a window that fills up, skills that were saved and do not load."""

    usable: Callable[[str], int]
    """Tokens of a model's window that conversations may take."""
    skill_states: Callable[[], Sequence[SkillState]]
    _active_warnings: OrderedDict[str, frozenset[str]] = field(default_factory=OrderedDict[str, frozenset[str]])
    """By session: what held when its latest turn started."""

    async def notes(self, context: NoteContext) -> Sequence[Note]:
        holds = {**self._window(context), **self._skills()}
        told = self._active_warnings.pop(context.session_id, frozenset[str]())
        if holds:
            self._active_warnings[context.session_id] = frozenset(holds)
        if len(self._active_warnings) > MAX_SESSIONS:
            self._active_warnings.popitem(last=False)
        return [note for key, note in holds.items() if key not in told]

    def _window(self, occasion: NoteContext) -> dict[str, Note]:
        """None where it is so full that there is going to be room before the model reads this."""
        used, usable = occasion.context_tokens, self.usable(occasion.model)
        if not WARN_FILL_SHARE * usable <= used < usable:
            return {}
        full = 100 * used // usable
        text = f"the window is {full} % full; when it is full, all but the latest messages are summed up"
        return {"window": Note("warning", text)}

    def _skills(self) -> dict[str, Note]:
        """What is wrong was written by whoever wrote the skill, so it is shown as data."""
        broken = {one.file: one for one in self.skill_states() if one.error and one.state != "disabled"}
        return {
            f"skill {file}: {one.error}": Note("warning", f"failed to load: {_cut(one.error or '')}", f"skill {file}")
            for file, one in list(broken.items())[:MAX_SKILLS]
        }


def _cut(text: str) -> str:
    return text if len(text) <= MAX_FAULT_CHARACTERS else f"{text[:MAX_FAULT_CHARACTERS]} [cut]"
