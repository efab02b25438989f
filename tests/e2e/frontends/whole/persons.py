"""A person in a storm: writes what is due, presses the buttons of cards, presses again when nothing happens."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from .phones import Phone, Shown
from .talk import OPTIONS, Message, words_in

PRESS_AGAIN_SECONDS = 2.0
"""The first time; then twice as long each time, for what waits is counted, and a bot drops messages behind too much."""
ALLOW, REJECT = "✅ Once", "❌ Reject"
FAILED = "⚠️"


@dataclass(slots=True)
class Person:
    phone: Phone
    random: random.Random
    plan: list[tuple[float, Message]]
    """What they write, and when: at which part of the storm."""
    written: dict[str, tuple[Message, str]] = field(default_factory=dict[str, tuple[Message, str]])
    """By word: the message and its id."""
    choices: dict[str, str] = field(default_factory=dict[str, str])
    """By card: the button that they press."""
    _next_press: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """By card: the moment from which they press again, and the pause behind that."""
    _asked: Message | None = None
    """The last message that has the model ask a question."""
    _failures: int = 0
    """How many turns had failed before."""

    def act(self, progress: float, *, calm: bool = False) -> None:
        """Do what is to be done at this part of the storm. `calm`: nothing is on its way any more."""
        shown = self.phone.shown()
        cards = [one for one in shown if one.buttons]
        for card in cards:
            self._press(card)
        if not self.plan or self.plan[0][0] > progress or cards or (not calm and self._may_be_asked(shown)):
            return
        _, message = self.plan.pop(0)
        self.written[message.word] = message, self.phone.write(message.text)
        if message.kind == "ask":
            self._asked, self._failures = message, failures(shown)

    def _may_be_asked(self, shown: Sequence[Shown]) -> bool:
        """Whether a text could be taken as the answer to a question that is still to come."""
        asked = self._asked
        if asked is None or asked.word in settled(shown) or is_taken_as_answer(asked, shown):
            return False
        return failures(shown) == self._failures

    def _press(self, card: Shown) -> None:
        now = time.monotonic()
        due, pause = self._next_press.get(card.id, (now, PRESS_AGAIN_SECONDS))
        if now < due:
            return
        self._next_press[card.id] = now + pause, pause * 2
        options = [label for label in (*OPTIONS, ALLOW, REJECT) if label in card.buttons]
        label = self.choices.setdefault(card.id, self.random.choice(options))
        self.phone.press(card.id, label)


def settled(shown: Sequence[Shown]) -> set[str]:
    """The words that an answer has."""
    return {word for one in shown for word in words_in("end", one.text)}


def is_taken_as_answer(message: Message, shown: Sequence[Shown]) -> bool:
    """Whether a card shows that the message was the answer to an earlier question, which came late."""
    return any(f"→ {message.text} (by" in one.text for one in shown)


def failures(shown: Sequence[Shown]) -> int:
    """How many turns have ended without an answer."""
    return sum(one.text.count(FAILED) for one in shown)
