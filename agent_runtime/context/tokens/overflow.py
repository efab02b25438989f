"""What a provider says when a prompt does not fit: the sizes in its error, in the words of those we know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_CHARACTERS = 4_000
"""Of an error that are looked at."""
MIN_TOKENS, MAX_TOKENS = 256, 100_000_000
"""Tokens of a window that there may be."""

_RATES = re.compile(r"per (?:minute|hour|day)|rate.?limit|\btpm\b|quota|throttl", re.IGNORECASE)
"""Too much in a while is not too much at once, and the numbers are others."""


@dataclass(frozen=True, slots=True)
class OverflowReport:
    """Sizes in tokens; none where the provider does not say."""

    limit: int | None
    """Of the window, or of the prompt where the provider counts that."""
    actual: int | None
    """Of the prompt."""
    with_reply: bool = False
    """What was asked for as room for the reply is part of it: the provider does not tell them apart."""


def overflow_of(text: str) -> OverflowReport | None:
    """The sizes in an error about a prompt that is too long; none when it states none, or speaks of a rate."""
    text = text[:MAX_CHARACTERS]
    if _RATES.search(text):
        return None
    limit, actual = _found(_LIMITS, text), _found(_ACTUALS, text)
    with_reply = actual is None
    if actual is None:
        actual = _found(_TOTALS, text)
    if limit is not None and not MIN_TOKENS <= limit <= MAX_TOKENS:
        limit = None
    if actual is not None and not 0 < actual <= MAX_TOKENS:
        actual = None
    return (
        None if limit is None and actual is None else OverflowReport(limit, actual, with_reply and actual is not None)
    )


def _patterns(*wordings: str) -> Sequence[re.Pattern[str]]:
    """`#` is a number, as `16000` or `16,000`."""
    return [re.compile(wording.replace("#", r"(\d[\d,]{0,14})"), re.IGNORECASE) for wording in wordings]


def _found(patterns: Sequence[re.Pattern[str]], text: str) -> int | None:
    """The number of the first wording that fits; where there are several in it, their sum."""
    for pattern in patterns:
        if match := pattern.search(text):
            return sum(int(number.replace(",", "")) for number in match.groups() if number)
    return None


# Each is followed by whoever words it so. The names are not all: many servers speak as OpenAI or vLLM do.
_LIMITS = _patterns(
    r"context length (?:is|of) only #",  # vLLM, LM Studio
    r"maximum (?:context|prompt|input|sequence) length (?:is|of) #",  # OpenAI, vLLM, OpenRouter, DeepSeek, xAI, SGLang
    r"> # maximum",  # Anthropic
    r"context limit: [\d,]+ \+ [\d,]+ > #",  # Anthropic, with the room for the reply
    r"context (?:size|length|window) \(#",  # llama.cpp, Together
    r"tokens allowed \(?#",  # Gemini
    r"(?:exceeds?|exceeded) (?:the )?(?:configured )?limit of #",  # OpenAI, GitHub Copilot, vLLM
    r"model with # maximum",  # Mistral
    r"maximum allowed (?:input )?length (?:of )?\(?#",  # SGLang, Poolside
    r"context (?:size is|window of) #",  # llama-cpp-python, DS4
    r"token limit: #",  # Moonshot
    r"input length should be \[\d+, ?#",  # DashScope
    r"must be <= #",  # text-generation-inference
    r"cannot exceed #",  # Cohere
    r"n_ctx\W{1,4}#",  # llama.cpp, whose older message has no numbers
)
_ACTUALS = _patterns(
    r"\(# (?:in the messages|in your prompt|of text input)(?:, # (?:in the functions|of tool input))?",  # OpenAI
    r"# tokens from the input",  # SGLang
    r"resulted in #",  # OpenAI
    r"\b(?:has|contains|passed)(?: at least)? # (?:input |prompt )?tokens",  # vLLM, Mistral, xAI, DS4
    r"too long: # tokens",  # Anthropic
    r"context limit: # \+",  # Anthropic
    r"(?:request|input|prompt|length|requested tokens) \(#",  # llama.cpp, Together, SGLang, llama-cpp-python
    r"token count (?:of |\()#",  # Gemini, GitHub Copilot
    r"input length # exceeds",  # Poolside
    r"given: #",  # text-generation-inference
    r"received #",  # Cohere
    r"keep the first #",  # LM Studio
    r"n_prompt_tokens\W{1,4}#",  # llama.cpp
)
_TOTALS = _patterns(
    r"requested(?: about| a total of|:)? #",  # OpenAI of old, OpenRouter, Moonshot
)
