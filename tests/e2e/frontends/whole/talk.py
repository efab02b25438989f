"""What people write in a storm, and a model that does what their words ask for.

A message is `KIND WORD`, and no other message has its word. A turn ends with `answer: WORD ...` for all words that have
come since the answer before, some text, and `end: WORD ...`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from agent_testing import Call, Say
from agent_testing.provider import Recorded
from agent_testing.provider.record import text_of

from .world import ASKS

Kind = Literal["say", "tell", "run", "allow", "ask"]
KINDS: tuple[Kind, ...] = get_args(Kind)
OPTIONS = ("red", "blue")
_WORDS = re.compile(rf"\b({'|'.join(KINDS)}) (w\d+n\d+)\b")
_NUMBER = re.compile(r"w(\d+)n(\d+)")
RUNS = "runs.txt"
"""Where each command that ran leaves its word."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a person."""

    kind: Kind
    word: str

    @property
    def text(self) -> str:
        return f"{self.kind} {self.word}"


def reply(request: Recorded) -> Say | Call:
    """The model: the first call that a word asks for and that has not been made, or else the answer."""
    since, calls = _since_last_answer(request)
    if not since:
        return Say("nothing was asked")
    for message in since:
        if message.word not in calls and (call := _call(message)) is not None:
            return call
    words = " ".join(dict.fromkeys(message.word for message in since))
    long = any(message.kind == "tell" for message in since)
    filler = [f"{number} sails along the coast. " for number in range(160 if long else 12)]
    return Say(pieces=(f"answer: {words}\n\n", *filler, f"\n\nend: {words}"), delay=0.004 if long else 0.04)


def _call(message: Message) -> Call | None:
    match message.kind:
        case "run":
            return Call("bash", {"command": f"sleep 0.3; echo {message.word} >> {RUNS}"})
        case "allow":
            return Call("bash", {"command": f"echo {ASKS}{message.word} >> {RUNS}"})
        case "ask":
            options = [{"label": label} for label in OPTIONS]
            return Call(
                "question", {"questions": [{"question": f"Which colour for {message.word}?", "options": options}]}
            )
        case "say" | "tell":
            return None


def _since_last_answer(request: Recorded) -> tuple[list[Message], str]:
    """The messages that no answer follows, and the calls that were made for them."""
    found: list[Message] = []
    calls = ""
    for one in reversed(request.messages):
        made = one.get("tool_calls")
        if one.get("role") == "assistant" and not made:
            break
        calls += str(made or "")
        if one.get("role") == "user":
            pieces = _WORDS.findall(text_of(one.get("content")))
            found[:0] = [Message(kind, word) for kind, word in pieces]
    return found, calls


def words_in(line: str, text: str) -> list[str]:
    """The words of the lines that begin so."""
    lines = re.findall(rf"^{line}:(.*)$", text, re.MULTILINE)
    return [found[0] for one in lines for found in re.finditer(_NUMBER, one)]
