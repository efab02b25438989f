"""Warnings for the model below a user's message: each once per session, and again if the condition returns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent_common.protocol import SkillState

from ...ports import Note, NoteContext

WARN_FILL_SHARE = 0.8
"""Share of the usable window from which a warning is given."""
MAX_SKILLS = 5
"""Maximum broken skills in one message."""
MAX_FAULT_CHARACTERS = 500
"""Maximum characters of a skill's error."""
MAX_SESSIONS = 4096
"""Maximum sessions remembered; the one unused for longest is forgotten first."""


@dataclass(frozen=True, slots=True)
class Warnings:
    """Implements ports.NoteProvider: warns of a window that fills up and of saved skills that do not load."""

    usable: Callable[[str], int]
    """Returns the tokens of a model's window that conversations may use."""
    skill_states: Callable[[], Sequence[SkillState]]
    _active_warnings: OrderedDict[str, frozenset[str]] = field(default_factory=OrderedDict[str, frozenset[str]])
    """Session id -> the conditions that held when its latest turn started."""

    async def notes(self, context: NoteContext) -> Sequence[Note]:
        active = {**self._window(context), **self._skills()}
        warned = self._active_warnings.pop(context.session_id, frozenset[str]())
        if active:
            self._active_warnings[context.session_id] = frozenset(active)
        if len(self._active_warnings) > MAX_SESSIONS:
            self._active_warnings.popitem(last=False)
        return [note for key, note in active.items() if key not in warned]

    def _window(self, context: NoteContext) -> dict[str, Note]:
        """Warn of a nearly full window. Above the usable size compaction makes room before the model reads this."""
        used = context.context_tokens
        usable = self.usable(context.model)
        if not WARN_FILL_SHARE * usable <= used < usable:
            return {}
        full = 100 * used // usable
        text = f"the window is {full} % full; when it is full, all but the latest messages are summarized"
        return {"window": Note("warning", text)}

    def _skills(self) -> dict[str, Note]:
        """Warn of broken skills. The error text comes from the skill's author, so it is shown as data."""
        broken = {one.file: one for one in self.skill_states() if one.error and one.state != "disabled"}
        return {
            f"skill {file}: {one.error}": Note("warning", f"failed to load: {_cut(one.error or '')}", f"skill {file}")
            for file, one in list(broken.items())[:MAX_SKILLS]
        }


def _cut(text: str) -> str:
    return text if len(text) <= MAX_FAULT_CHARACTERS else f"{text[:MAX_FAULT_CHARACTERS]} [cut]"
