"""What a reader of a model's answer gives: its pieces as they come, and its calls at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TextPiece:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningPiece:
    text: str


@dataclass(frozen=True, slots=True)
class TextWasReasoning:
    """All text so far was reasoning: the mark that ends it has come, and none had begun it."""


@dataclass(frozen=True, slots=True)
class CallStarted:
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallPiece:
    id: str
    text: str
    """The next piece of the arguments' JSON."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call as the model asked for it. `arguments` is raw text and may be broken JSON."""

    id: str
    name: str
    arguments: str
    fields: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Members that we do not know, such as a signature, as the provider gave them."""


AnswerPiece = TextPiece | ReasoningPiece | TextWasReasoning | CallStarted | CallPiece
