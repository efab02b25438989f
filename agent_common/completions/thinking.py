"""Tell reasoning, blank beginnings and calls that are written as text from the text of an answer.

Servers without a parser for their model leave its notation in the content. What begins with the tag of reasoning is
reasoning up to its end; where the prompt has opened the tag, only its end is there. What begins with the notation of a
call, or may be one in JSON, is held back to the end of the answer (`calls.written`), and so is what special tokens of a
call begin, behind a text too. Any other tag inside the text, as in code that is quoted, stays.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Literal

from agent_common.line_text import first_visible

from .calls.unmarked import begins_unmarked_call
from .calls.written import FINAL_MARKS, MARKS, NOTATIONS
from .pieces import ReasoningPiece, TextPiece, TextWasReasoning

TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "\u25c1think\u25b7": "\u25c1/think\u25b7",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel>thought": "<channel|>",
    "<longcat_think>": "</longcat_think>",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|start|>assistant<|channel|>analysis<|message|>": "<|end|>",
}
ANSWER_HEADS = (
    *("<|channel|>final<|message|>", "<|start|>assistant<|channel|>final<|message|>"),
    *("<|channel|>commentary<|message|>", "<|start|>assistant<|channel|>commentary<|message|>"),
    *("assistantfinal", "<|START_RESPONSE|>"),
)
"""What only says that the answer follows."""
_NEXT_CHANNELS = (
    *(*ANSWER_HEADS[:2], "<|channel|>commentary", "<|start|>assistant<|channel|>commentary"),
    *("<|channel|>analysis to=functions.", "<|start|>assistant<|channel|>analysis to=functions."),
)
"""What ends reasoning in a channel, too, and is read after it."""
_STRIPPED = "analysis"
_IS_STRIPPED = re.compile(rf"{_STRIPPED}(?=[^\W\d_a-z])")
"""How reasoning in a channel begins whose marks the server has removed. It may also be a name in a text."""
_NEXT_STRIPPED = ("assistantfinal", "assistantcommentary to=functions.", "assistantanalysis to=functions.")
"""What ends that, and is read after it."""
UNOPENED_CLOSINGS = ("</think>", "</thinking>", "</seed:think>", "[/THINK]", "\u25c1/think\u25b7")
"""Ends that are believed without a beginning."""
MAX_HELD = 256 * 1024
"""Characters of a written call that are held back."""
MAX_BLANKS = 16 * 1024
"""Characters that are held back because nothing visible has come yet."""
MIN_REPEATED = 32
"""Characters of a text from which on it is not said a second time by chance."""
MAX_BLOCKS = 64
"""Most blocks of reasoning in one answer. Text after the last of them is read as text."""
_UNOPENED_CLOSING = re.compile("|".join(map(re.escape, UNOPENED_CLOSINGS)))
_OPENINGS = tuple(closing.replace("/", "", 1) for closing in UNOPENED_CLOSINGS)
_BEGINNINGS_OF_TEXT = (*TAGS, *ANSWER_HEADS, _STRIPPED)
_BEGINNINGS = (*_BEGINNINGS_OF_TEXT, *NOTATIONS)
_LONGEST = max(map(len, _BEGINNINGS))
_MAY_BEGIN = frozenset((*(beginning[0] for beginning in _BEGINNINGS), "{", "`"))
_MARK = re.compile("|".join(map(re.escape, MARKS)))
_CLOSING_OR_MARK = re.compile(f"{_UNOPENED_CLOSING.pattern}|{_MARK.pattern}")
_ALL_CLOSINGS = (*TAGS.values(), *_NEXT_CHANNELS, *_NEXT_STRIPPED, *MARKS, *FINAL_MARKS)
_FINALS_OR_CLOSINGS = (*FINAL_MARKS, *UNOPENED_CLOSINGS)
_FINALS_OR_MARKS = (*FINAL_MARKS, *MARKS)
_FINALS_OR_ALL = (*_FINALS_OR_CLOSINGS, *MARKS)
_LONGEST_END = max(map(len, _ALL_CLOSINGS))
_MAY_CLOSE = frozenset(end[0] for end in _ALL_CLOSINGS)

TextEvent = TextPiece | ReasoningPiece | TextWasReasoning
Reading = Generator[TextEvent, None, str]
"""Yields what is certain and returns what is left to read."""


class TextChannel:
    """The content of one answer, piece by piece."""

    def __init__(self, *, thinking: bool = False, calls: bool = True, names: frozenset[str] = frozenset()) -> None:
        """`thinking`: the answer begins inside reasoning, as this model's prompt opens the tag. `calls`: whether it may
        hold written calls. `names`: those of the tools, by which calls in JSON are known."""
        self._state: Literal["start", "text", "thinking", "call"] = "thinking" if thinking else "start"
        self._closings = UNOPENED_CLOSINGS if thinking else ()
        self._calls = calls
        self._names = names
        self.unmarked = False
        """Whether what is held as calls begins as JSON."""
        self._held = ""
        """What cannot be told yet: blanks and a part of a tag."""
        self._call: list[str] = []
        self._call_size = 0
        """What may be calls in a model's own notation, and its length."""
        self._spoken: list[str] = []
        self._quotes = _Quotes()
        """What the first `_quotes_read` pieces of `_spoken` say of quoting."""
        self._quotes_read = 0
        self._thought: list[str] = []
        self._head = ""
        """What the reasoning began with, where it may be text that was taken for reasoning."""
        self._blocks = 0
        """Blocks of reasoning that have ended."""
        self._may_close_unopened = not thinking
        self._unopened = thinking
        self.thought_before_text = False
        """Whether an end without a beginning has come."""

    @property
    def written(self) -> str:
        """What may be calls in a model's own notation; empty if there are none."""
        return "".join(self._call) if self._state == "call" else ""

    @property
    def open_reasoning(self) -> str:
        """The reasoning, if it has no end and nothing was said."""
        return "" if self._state != "thinking" or self._spoken else "".join((*self._thought, self._held))

    def passes(self, piece: str) -> bool:
        """Return whether a piece is text and nothing else, as nearly all are. It counts as said then."""
        plain = self._state == "text" and not self._held and "<" not in piece and "[" not in piece
        if not plain or "\u25c1" in piece:
            return False
        if piece:
            self._spoken.append(piece)
        return bool(piece)

    def feed(self, piece: str) -> Iterator[TextEvent]:
        """Yield what is certain with this piece."""
        if self._state != "call":
            piece = self._held + piece
            self._held = ""
        while piece:
            match self._state:
                case "start":
                    piece = self._begin(piece)
                case "thinking":
                    piece = yield from self._think(piece)
                case "call":
                    piece = self._hold_call(piece)
                case "text":
                    piece = yield from self._text(piece)

    def repeats(self, piece: str) -> bool:
        """Return whether the last piece of an answer says all of the text again, as that of some gateways does."""
        return len(piece) >= MIN_REPEATED and piece == "".join((*self._spoken, *self._call, self._held))

    def drop_written(self) -> None:
        """Forget what may be calls: they have been read."""
        if self._state == "call":
            self._state = "text"
            self._call.clear()

    def finish(self, *, called: bool = False, cut_off: bool = False) -> Iterator[TextEvent]:
        """Yield the rest at the end of the answer, also what looked like calls. If all was reasoning without an end, it
        is said as text too, unless the answer is that something is `called`, or the reasoning was `cut_off`."""
        held = self.written or self._held
        self._held = ""
        self._call.clear()
        if self._state == "text":
            yield from self._say("" if self._is_end(held) else held)
        elif self._state == "call":
            yield from self._say(held)
        elif self._state == "thinking":
            yield from self._reason(held)
            text = "".join(self._thought).strip()
            if text and not (self._spoken or called or (cut_off and not self._head)):
                yield from self._say(self._head + text)
        elif self._state == "start" and first_visible(held) is not None:
            yield from self._say(held)

    @property
    def silent(self) -> bool:
        """Whether no text was said that shows."""
        return all(first_visible(piece) is None for piece in self._spoken)

    def _begin(self, piece: str) -> str:
        """Decide what the answer begins with. Returns what is left to read."""
        first = first_visible(piece)
        begun = piece[first:] if first is not None else ""
        if begun and begun[0] not in _MAY_BEGIN:  # nearly all
            self._state = "text"
            return begun if self._blocks else piece
        unmarked = begins_unmarked_call(begun, self._names) if self._calls and self._names else False
        may_begin = (
            not begun
            or unmarked is None
            or (len(begun) < _LONGEST and any(tag.startswith(begun) for tag in self._beginnings))
        )
        if may_begin and len(piece) < MAX_BLANKS:
            self._held = piece
            return ""
        for tag, end in TAGS.items():
            if begun.startswith(tag):
                closings = (end, *(_NEXT_CHANNELS if "<|channel|>" in tag else ()))
                self._state = "thinking"
                self._closings = closings
                self._may_close_unopened = False
                return begun[len(tag) :].lstrip("\n")
        if not self._blocks and _IS_STRIPPED.match(begun):
            self._state = "thinking"
            self._closings = _NEXT_STRIPPED
            self._may_close_unopened = False
            self._head = _STRIPPED
            return begun[len(_STRIPPED) :]
        self._state = "text"
        for head in ANSWER_HEADS:
            if begun.startswith(head):
                return begun[len(head) :]
        if self._calls and (unmarked or begun.startswith(NOTATIONS)):
            self._state = "call"
            self.unmarked = bool(unmarked)
            return begun
        return begun if self._blocks else piece

    @property
    def _beginnings(self) -> tuple[str, ...]:
        return _BEGINNINGS if self._calls else _BEGINNINGS_OF_TEXT

    def _think(self, piece: str) -> Reading:
        closings = [(at, end) for end in self._closings if (at := piece.find(end)) >= 0]
        if closings:
            at, end = min(closings)
            yield from self._reason(piece[:at].rstrip())
            self._blocks += 1
            self._state = "start" if self._blocks < MAX_BLOCKS else "text"
            self.thought_before_text = self.thought_before_text or self._unopened
            self._unopened = False
            return piece[at if end in (*_NEXT_CHANNELS, *_NEXT_STRIPPED) else at + len(end) :]
        cut = _safe_length(piece, self._closings)
        self._held = piece[cut:]
        yield from self._reason(piece[:cut])
        return ""

    def _hold_call(self, piece: str) -> str:
        self._call.append(piece)
        self._call_size += len(piece)
        if self._call_size <= MAX_HELD:
            return ""
        piece = self.written
        self._state = "text"
        self._calls = False
        self._call.clear()
        return piece

    def _text(self, piece: str) -> Reading:
        signs, marks = self._signs
        after = 0
        for sign in signs.finditer(piece) if signs else ():
            self._read_quotes(piece[after : sign.start()])
            after = sign.start()
            if sign[0] in MARKS:
                if not self._quotes.in_code:
                    yield from self._say(piece[:after])
                    self._state = "call"
                    self.unmarked = False
                    return piece[after:]
            elif not self._quotes.around(sign[0]):
                yield from self._end_unopened(piece[:after])
                return piece[sign.end() :]
        cut = _safe_length(piece, marks)
        self._held = piece[cut:]
        piece = piece[:cut]
        self._read_quotes(piece[after:])
        yield from self._say(piece)
        self._quotes_read = len(self._spoken)
        return ""

    @property
    def _signs(self) -> tuple[re.Pattern[str] | None, tuple[str, ...]]:
        """What is looked for inside a text, as a pattern and as texts."""
        if not self._calls:
            return (_UNOPENED_CLOSING, _FINALS_OR_CLOSINGS) if self._may_close_unopened else (None, FINAL_MARKS)
        return (_CLOSING_OR_MARK, _FINALS_OR_ALL) if self._may_close_unopened else (_MARK, _FINALS_OR_MARKS)

    def _is_end(self, last: str) -> bool:
        """Whether the text ends with an end mark that the server has left in it, not with one that it speaks of."""
        if last not in FINAL_MARKS:
            return False
        self._read_quotes("")
        return not self._quotes.in_code and not (self._spoken and self._spoken[-1].endswith(" "))

    def _end_unopened(self, before: str) -> Iterator[TextEvent]:
        """Take the text so far for reasoning: its end has come, behind this piece, and none had begun it."""
        self._state = "start"
        self._may_close_unopened = False
        self._blocks = 1
        if self.silent and first_visible(before) is None:  # the reasoning came in a member of its own
            return
        yield from self._say(before)
        yield TextWasReasoning()
        self._thought = self._spoken
        self._spoken = []
        self._quotes = _Quotes()
        self._quotes_read = 0
        self.thought_before_text = True

    def _read_quotes(self, text: str) -> None:
        """Go on with what was said since, and this text behind it. Each is read once, however many ends come."""
        for piece in self._spoken[self._quotes_read :]:
            self._quotes.read(piece)
        self._quotes_read = len(self._spoken)
        self._quotes.read(text)

    def _say(self, text: str) -> Iterator[TextEvent]:
        if text:
            self._spoken.append(text)
            yield TextPiece(text)

    def _reason(self, text: str) -> Iterator[TextEvent]:
        if text:
            self._thought.append(text)
            yield ReasoningPiece(text)


def _safe_length(text: str, closings: tuple[str, ...]) -> int:
    """Return the length of the beginning of a text that no tag can continue."""
    for at in range(max(0, len(text) - _LONGEST_END + 1), len(text)):
        if text[at] in _MAY_CLOSE and any(end.startswith(text[at:]) for end in closings):
            return at
    return len(text)


class _Quotes:
    """What a text so far says of quoting: an end of reasoning is only spoken of in code, or behind a beginning."""

    def __init__(self) -> None:
        self.in_code = False
        self._opened: set[str] = set()
        self._tail = ""

    def read(self, text: str) -> None:
        """Go on with the next piece of the text."""
        self.in_code ^= text.count("`") % 2 == 1
        seen = self._tail + text
        self._opened.update(opening for opening in _OPENINGS if opening in seen)
        self._tail = seen[-_LONGEST_END:]

    def around(self, closing: str) -> bool:
        """Whether an end of reasoning that comes next is quoted."""
        return self.in_code or closing.replace("/", "", 1) in self._opened
