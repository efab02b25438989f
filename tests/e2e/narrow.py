"""A model with a narrow window: it counts what it is sent, refuses what is too much, and keeps the facts of what it
sums up. A fact looks like `FACT-7: key-123`."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from agent_runtime.context.tokens.encodings import encoder
from agent_testing import Call, Fail, Garbage, Recorded, Say
from agent_testing import Step as Reply

FACT = re.compile(r"FACT-\d+: key-\d+")
SAYS = "This model's maximum context length is {window} tokens. However, your messages resulted in {count} tokens."
Answer = Callable[[Recorded], Reply]


def is_summary(request: Recorded) -> bool:
    """Whether a conversation is to be summed up."""
    return not request.tool_names and "<conversation>" in request.last_user_text


def facts(request: Recorded) -> list[str]:
    """All facts that a request tells of, each once."""
    return sorted(set(FACT.findall(json.dumps(request.messages, ensure_ascii=False))))


def prose(words: int, seed: int = 0) -> str:
    return " ".join(f"word{(seed + at) % 97}" for at in range(words))


@lru_cache(maxsize=4096)
def _tokens(text: str) -> int:
    return encoder("o200k_base").count(text)


def summary_of(request: Recorded) -> Say:
    return Say("## Facts\n" + "\n".join(facts(request)))


def noted(request: Recorded) -> Reply:
    """Reads the file that a message names, tells how many facts it knows, else a few words."""
    if request.messages[-1]["role"] == "tool":
        return Say("I have read it.")
    asked = request.last_user_text
    if found := re.search(r"read (\S+\.txt)", asked):
        return Call("read", {"path": found[1]})
    if "how many facts" in asked:
        return Say(f"I know {len(facts(request))}.")
    return Say("Noted. " + prose(60))


@dataclass
class Narrow:
    """Fills testing.Reply. Its tokens are those of o200k_base times a factor that nobody else knows."""

    window: int = 16_000
    factor: float = 1.3
    tells: bool = True
    """It says how much it takes when it refuses."""
    reports: bool = True
    """It reports what it was sent."""
    answer: Answer = noted
    sum_up: Answer = summary_of
    largest: int = 0
    """The most tokens of a request that it took."""
    refused: int = 0
    summaries: list[Recorded] = field(default_factory=list[Recorded])
    talk: list[Recorded] = field(default_factory=list[Recorded])
    """What it was asked beside summaries, and took."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, request: Recorded) -> int:
        """Tokens of a request."""
        fields = request.fields
        texts = [json.dumps(message, ensure_ascii=False) for message in fields["messages"]]
        texts.append(json.dumps(fields.get("tools") or "", ensure_ascii=False))
        return int(sum(_tokens(text) for text in texts) * self.factor)

    def __call__(self, request: Recorded) -> Reply:
        with self._lock:
            count = self.count(request)
            if count + (request.fields.get("max_tokens") or 0) > self.window:
                self.refused += 1
                said = SAYS.format(window=self.window, count=count) if self.tells else "Your prompt is too long."
                return Fail(400, said, code="context_length_exceeded")
            self.largest = max(self.largest, count)
            (self.summaries if is_summary(request) else self.talk).append(request)
        reply = self.sum_up(request) if is_summary(request) else self.answer(request)
        if isinstance(reply, Call):
            reply = Say(reply.text, calls=(reply,))
        if not isinstance(reply, Say):
            return reply
        return replace(reply, usage={"prompt_tokens": count}) if self.reports else unreported(reply)


def unreported(say: Say) -> Garbage:
    """The same answer from a provider that says nothing of usage."""
    deltas: list[dict[str, Any]] = [{"content": say.text}] if say.text else []
    for index, call in enumerate(say.calls):
        function = {"name": call.name, "arguments": json.dumps(call.arguments)}
        name = call.id or f"call_{hash(function['arguments']) % 10**9}"
        deltas.append({"tool_calls": [{"index": index, "id": name, "type": "function", "function": function}]})
    events: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
    ]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if say.calls else "stop"}]})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return Garbage("".join((*lines, "data: [DONE]\n\n")))


def texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    return [str(message.get("content")) for message in messages]


def failing(*replies: Reply) -> Any:
    """Sums up so, call by call, and then as it should."""
    left = iter(replies)

    def sum_up(request: Recorded) -> Reply:
        return next(left, None) or summary_of(request)

    return sum_up
