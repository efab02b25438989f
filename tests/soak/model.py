"""The scripted model: it carries out the orders that stand in the user's message, step by step.

What it answers depends on the conversation alone, so that neither the order of requests nor a restart changes it.
After a call whose outcome nobody knows it looks before it does anything again, as a careful model would. The one thing
it remembers is how often it was asked the very same question: that number goes into the line that an effect leaves, so
that "the runtime ran a tool again" can be told from "the model was asked again".
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from agent_testing import Call, Recorded, Say

EFFECTS = "effects.log"
"""In the workspace; every line in it is an effect: `owner:step:attempt:asked`."""
STORY = "story.txt"
"""In the workspace, for reading."""
_ORDERS = re.compile(r"```json\n(\{.*?\n\})\n```", re.DOTALL)
_CALL = re.compile(r"s(\d+)-([a-z]+)-(\d+)")
_ATTEMPTS = 8
FINAL = "final"


@dataclass(frozen=True, slots=True)
class Orders:
    """What a message asks the model to do."""

    owner: str
    """The id of the task or message; no two share one."""
    plan: tuple[str, ...] = ()
    """One step each: kinds of calls, joined by `+`: `bash` is an effect, `write` and `put` are idempotent, `read` and
    `look` read-only. `put` and `look` are skills that a test brings along."""
    words: int = 3
    """Of the final answer."""
    pace: float = 0.0
    """Seconds between two words."""
    linger: float = 0.0
    """Seconds that a command or skill goes on after its effect."""

    def json(self) -> dict[str, Any]:
        fields = {"soak": self.owner, "plan": self.plan, "words": self.words}
        return {**fields, "pace": self.pace, "linger": self.linger}

    def text(self) -> str:
        """As a chat message; a task's message looks alike."""
        return f"Please:\n```json\n{json.dumps(self.json(), indent=1)}\n```"

    @property
    def effects(self) -> list[int]:
        """The steps that leave a line in the file."""
        return [number for number, kinds in enumerate(self.plan) if "bash" in kinds]


def orders_in(text: str) -> Orders | None:
    """The orders in a message, if there are any."""
    found = _ORDERS.search(text)
    fields = json.loads(found[1]) if found else {}
    if "soak" not in fields:
        return None
    return Orders(fields["soak"], tuple(fields["plan"]), fields["words"], fields["pace"], fields["linger"])


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to the model."""

    owner: str
    place: str
    """Which answer it asked for: the ids of the calls, or `final`."""
    life: int
    at: float
    before: tuple[str, ...]
    """Owners of the messages of the conversation, in their order."""
    shown: tuple[int, ...] = ()
    """A checksum of each message."""


class Model:
    """The reply function of the provider, and its memory of what it was asked."""

    def __init__(self, life: Callable[[], int], heard: Callable[[str], None] = lambda _: None) -> None:
        self._life, self._heard = life, heard
        self._lock = threading.Lock()
        self._asked: Counter[tuple[str, str]] = Counter()
        self.asks: list[Ask] = []

    def __call__(self, request: Recorded) -> Say:
        spoken = [orders_in(_text(message)) if message["role"] == "user" else None for message in request.messages]
        owners = [orders for orders in spoken if orders is not None]
        if not owners:
            return Say("ok")
        orders = owners[-1]
        last = max(position for position, one in enumerate(spoken) if one is not None)
        place, wanted = progress(orders, request.messages[last + 1 :])
        shown = tuple(crc32(json.dumps(message).encode()) for message in request.messages)
        asked = self._note(orders, place, tuple(one.owner for one in owners), shown)
        self._heard("ask")
        if place != FINAL:
            calls = tuple(_call(orders, *one, asked) for one in wanted)
            return Say(f"{orders.owner} goes on with {place}. ", calls=calls, delay=orders.pace)
        return Say(pieces=tuple(_words(orders)), delay=orders.pace)

    def _note(self, orders: Orders, place: str, before: tuple[str, ...], shown: tuple[int, ...]) -> int:
        with self._lock:
            self._asked[orders.owner, place] += 1
            self.asks.append(Ask(orders.owner, place, self._life(), time.time(), before, shown))
            return self._asked[orders.owner, place]


def answer_to(orders: Orders) -> str:
    """The final answer of a turn that carried out its orders."""
    return "".join(_words(orders))


def _words(orders: Orders) -> Iterator[str]:
    yield f"{orders.owner} did {len(orders.plan)} steps:"
    for number in range(orders.words):
        yield f" word{number}"


# ---------------------------------------------------------------- where the work stands


def progress(orders: Orders, talk: Sequence[dict[str, Any]]) -> tuple[str, list[tuple[int, str, int]]]:
    """The next answer: its name, and its calls as (step, kind, attempt). `talk` is what came after the orders."""
    results = dict(_results(talk))
    for step, kinds in enumerate(orders.plan):
        wanted = [call for kind in kinds.split("+") if (call := _next(step, kind, results)) is not None]
        if wanted:
            return " ".join(_name(*call) for call in wanted), wanted
    return FINAL, []


def _next(step: int, kind: str, results: dict[tuple[int, str, int], Any]) -> tuple[int, str, int] | None:
    """The call that this part of a step still needs; none when it is done."""
    for attempt in range(1, _ATTEMPTS):
        result = results.get((step, kind, attempt))
        if result is None:
            return step, kind, attempt
        if result["type"] == "output":
            return None
        if kind == "bash":  # nobody knows whether it happened
            seen = results.get((step, "check", attempt))
            if seen is None:
                return step, "check", attempt
            if seen["type"] == "output" and seen["data"]["matches"]:
                return None
    return None


def _results(talk: Sequence[dict[str, Any]]) -> Iterator[tuple[tuple[int, str, int], Any]]:
    """What each call gave, by step, kind and attempt."""
    for message in talk:
        if message["role"] == "tool" and (found := _CALL.match(message["tool_call_id"])):
            yield (int(found[1]), found[2], int(found[3])), json.loads(message["content"])


def _name(step: int, kind: str, attempt: int) -> str:
    return f"s{step}-{kind}-{attempt}"


def _call(orders: Orders, step: int, kind: str, attempt: int, asked: int) -> Call:
    owner = orders.owner
    match kind:
        case "bash":
            line = f"{owner}:{step}:{attempt}:{asked}"
            linger = f"; sleep {orders.linger}" if orders.linger else ""
            name, arguments = "bash", {"command": f"echo {line} >> {EFFECTS}{linger}"}
        case "write":
            name, arguments = "write", {"path": f"notes/{owner}.txt", "content": f"{owner} was at step {step}\n"}
        case "look" | "put":
            name, arguments = kind, {"step": step, "seconds": orders.linger}
        case "check":
            name, arguments = "grep", {"pattern": f"^{owner}:{step}:", "include": EFFECTS}
        case _:
            name, arguments = "read", {"path": STORY, "limit": step + 1}
    return Call(name, arguments, id=_name(step, kind, attempt))


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else ""
