"""A list to choose from, in place of the input: its state and how it is drawn. The keys are in keys.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.text import Text

from ..blocks import POINTER, Marked

SHOWN_CHOICES = 8
GUARDED_HINT = "Your message is kept · ↑ or ↓ first, then your answer"


@dataclass(frozen=True, slots=True)
class Picked:
    """What the person chose: numbers of choices from 0, and a text that was typed in place of them or for one."""

    numbers: Sequence[int] = ()
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """A line of the list."""

    label: str
    detail: str = ""


@dataclass(slots=True)
class Menu:
    """What is asked, and what may be chosen."""

    title: RenderableType
    choices: Sequence[Choice] = ()
    hint: str = ""
    style: str = "accent"
    multiple: bool = False
    text_label: str | None = None
    """What a text may be typed for; None: only the choices count."""
    text_choice: int | None = None
    """The choice that a typed text is for, where one key alone goes to the choice of that key; None: the text takes
    the place of the choices."""
    text_hint: str = ""
    """Shown in place of `hint` while such a text is typed."""
    keys: Mapping[str, int] = field(default_factory=dict[str, int])
    """Letters that go to a choice."""
    cursor: int = 0
    ticked: set[int] = field(default_factory=set[int])
    guarded: bool = False
    """It has opened over a message that is being written, whose keys choose nothing: `move` takes the guard away."""
    typed: str = ""
    """The text so far, of a menu with `text_choice`."""
    in_words: bool = False
    """Whether that is more than one key for a choice."""

    def move(self, by: int) -> None:
        """Take the guard away, else move the cursor, around the ends. Words stay with their choice."""
        if self.guarded:
            self.guarded = False
        elif self.choices and not self.in_words:
            self.cursor = (self.cursor + by) % len(self.choices)

    def type(self, text: str) -> None:
        """Take the text so far: the cursor goes to the choice of a key that stands alone, for all else to the choice
        that words are for. What is left of words stays words, until all of it is deleted."""
        if self.text_choice is None:
            return
        chosen = self._choice_of(text) if not self.typed else None
        self.typed = text
        self.in_words = bool(text) and chosen is None
        if text:
            self.cursor = self.text_choice if chosen is None else chosen

    def tick(self) -> None:
        """Add the choice under the cursor to those that are chosen, or take it out."""
        if self.multiple and self.choices and not self.guarded:
            self.ticked ^= {self.cursor}

    def press(self, key: str) -> Picked | None:
        """Return what a number chooses at once, in a menu without a text."""
        number = self._choice_of(key)
        if self.guarded or number is None:
            return None
        if self.multiple:
            self.cursor = number
            self.tick()
            return None
        return Picked((number,))

    def enter(self, text: str) -> Picked | None:
        """Return what Enter chooses: the typed text, the chosen lines, or the one under the cursor."""
        if self.guarded:
            return None
        if self.text_choice is not None:
            return Picked((self.cursor,), (text.strip() or None) if self.in_words else None)
        if self.text_label is not None and (text.strip() or not self.choices):
            return Picked(text=text.strip())
        if not self.choices:
            return None
        return Picked(tuple(sorted(self.ticked)) or (self.cursor,))

    def drawn_title(self) -> RenderableType:
        """Return what is asked."""
        return self.bar(self.title)

    def drawn_choices(self) -> RenderableType:
        """Return the choices around the cursor."""
        first = min(max(self.cursor - SHOWN_CHOICES // 2, 0), max(len(self.choices) - SHOWN_CHOICES, 0))
        shown = range(first, min(first + SHOWN_CHOICES, len(self.choices)))
        lines: list[RenderableType] = [Text("")] if shown else []
        lines += [self._line(number) for number in shown]
        if len(shown) < len(self.choices):
            lines.append(Text(f"  {self.cursor + 1} of {len(self.choices)}", "dim"))
        if hint := GUARDED_HINT if self.guarded else self.text_hint if self.in_words else self.hint:
            lines += [Text(""), Text(hint, "warn" if self.guarded else "dim")]
        return self.bar(Group(*lines))

    def bar(self, block: RenderableType) -> RenderableType:
        """Return the block behind the bar of the menu."""
        return Marked("▌ ", self.style, block, every_line=True)

    def _choice_of(self, key: str) -> int | None:
        """Return the choice that a key stands for: a number, or a letter of `keys`."""
        number = int(key) - 1 if key in "123456789" and len(key) == 1 else self.keys.get(key.lower(), -1)
        return number if 0 <= number < len(self.choices) else None

    def _line(self, number: int) -> Text:
        choice = self.choices[number]
        here = number == self.cursor
        mark = ("◉ " if number in self.ticked else "○ ") if self.multiple else ""
        line = Text.assemble(
            (POINTER if here else "  ", "accent"),
            (f"{number + 1}. ", "dim"),
            mark,
            (choice.label, "bold" if here else ""),
        )
        if choice.detail:
            line.append(f"  {choice.detail}", "dim")
        line.no_wrap = len(self.choices) > SHOWN_CHOICES
        line.overflow = "ellipsis"
        return line
