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
    """What the person chose: numbers of choices from 0, or a text in place of them."""

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
    keys: Mapping[str, int] = field(default_factory=dict[str, int])
    """Letters that choose at once."""
    cursor: int = 0
    ticked: set[int] = field(default_factory=set[int])
    guarded: bool = False
    """It has opened over a message that is being written, whose keys choose nothing: `move` takes the guard away."""

    def move(self, by: int) -> None:
        """Take the guard away, else move the cursor, around the ends."""
        if self.guarded:
            self.guarded = False
        elif self.choices:
            self.cursor = (self.cursor + by) % len(self.choices)

    def tick(self) -> None:
        """Add the choice under the cursor to those that are chosen, or take it out."""
        if self.multiple and self.choices and not self.guarded:
            self.ticked ^= {self.cursor}

    def press(self, key: str) -> Picked | None:
        """Return what a key chooses at once: a number, or a letter of `keys`."""
        number = int(key) - 1 if key.isascii() and key.isdigit() else self.keys.get(key.lower(), -1)
        if self.guarded or not 0 <= number < len(self.choices):
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
        if hint := GUARDED_HINT if self.guarded else self.hint:
            lines += [Text(""), Text(hint, "warn" if self.guarded else "dim")]
        return self.bar(Group(*lines))

    def bar(self, block: RenderableType) -> RenderableType:
        """Return the block behind the bar of the menu."""
        return Marked("▌ ", self.style, block, every_line=True)

    def _line(self, number: int) -> Text:
        choice, here = self.choices[number], number == self.cursor
        mark = ("◉ " if number in self.ticked else "○ ") if self.multiple else ""
        line = Text.assemble(
            (POINTER if here else "  ", "accent"),
            (f"{number + 1}. ", "dim"),
            mark,
            (choice.label, "bold" if here else ""),
        )
        if choice.detail:
            line.append(f"  {choice.detail}", "dim")
        line.no_wrap, line.overflow = len(self.choices) > SHOWN_CHOICES, "ellipsis"
        return line
