"""Read the sizes out of a provider's error about a prompt that is too long, in the wordings of known providers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

MAX_CHARACTERS = 4_000
"""Characters of an error text that are searched."""
MIN_TOKENS = 256
MAX_TOKENS = 100_000_000
"""Bounds of a plausible window, in tokens."""

_RATES = re.compile(r"per (?:minute|hour|day)|rate.?limit|\btpm\b|quota|throttl", re.IGNORECASE)
"""A rate limit is not an overflow, and its numbers mean something else."""
_POINTERS = re.compile(
    r"(?:https?://|[\w-]{1,63}+\.[\w.-]{1,100}+/)\S++"
    r"|\b(?:see|check|about|on) (?:your |our |the )?(?:rate.?limits?|quotas?)\b|\bfor rate.?limits\b",
    re.IGNORECASE,
)
"""Where more is to be read, which any error may say."""

_TOO_LONG = re.compile(
    r"\b(?:prompt|inputs?|messages?|context|conversation|history|\u8f93\u5165|\u4e0a\u4e0b\u6587)(?![.\[_]\w)"
    r"[^.:;\uff0c]{0,60}?"
    r"(?:\btoo long\b|(?:token|length|window|size|long|context|\u957f\u5ea6)[^.;\uff0c]{0,60}?"
    r"(?:exceed|too (?:large|long|many)|longer|larger|greater|must be <"
    r"|\u8d85\u8fc7|\u8d85\u51fa|\u8d85\u957f|\u8d85\u9650|\u8fc7\u957f)"
    r"|exceed\w* (?:the |its |max\w* |model )*(?:allowed )?(?:length|tokens?|context|window))"
    r"|\btokens? (?:in|of) (?:the |your )?(?:prompt|inputs?|messages)\b[^.;]{0,40}exceed",
)
"""A prompt, its length, and that this is too much, in one sentence."""
_SENTENCES = re.compile(r"[.;]\s|\n|\u3002")
_OF_ANOTHER_SIZE = re.compile(
    r"image|file|audio|video|attachment|document|url|bytes|\bmb\b|description|\bname\b|tools?\b|function|schema"
    r"|max_(?:completion_|output_)?tokens|\boutput|stop|batch|\bkey\b|\bid\b|header"
)
"""Words about something else that has a size."""


@dataclass(frozen=True, slots=True)
class OverflowReport:
    """Sizes in tokens; None where the error does not state one."""

    limit: int | None
    """The window, or the longest prompt if the provider limits that."""
    actual: int | None
    """The prompt."""
    with_reply: bool = False
    """Whether `actual` includes the tokens reserved for the reply, because the provider does not separate them."""


def overflow_of(text: str) -> OverflowReport | None:
    """Return the sizes in an error about a prompt that is too long; None if it has none, or is about a rate limit."""
    text = text[:MAX_CHARACTERS]
    if is_about_rates(text):
        return None
    limit = _found(_LIMITS, text)
    actual = _found(_ACTUALS, text)
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


def is_about_rates(text: str) -> bool:
    """Return whether an error is about tokens or requests in a time, whose numbers are no sizes of windows."""
    return _RATES.search(without_pointers(text)) is not None


def without_pointers(text: str) -> str:
    """Return the text of an error without addresses and without what points to a page about limits."""
    return _POINTERS.sub("", text[:MAX_CHARACTERS])


def tells_of_a_long_prompt(words: str) -> bool:
    """Return whether a sentence in the words of an error, in lower case, says that the prompt is too long."""
    sentences = (one for one in _SENTENCES.split(words[:MAX_CHARACTERS]) if _TOO_LONG.search(one) is not None)
    return any(_OF_ANOTHER_SIZE.search(sentence) is None for sentence in sentences)


def _patterns(*wordings: str) -> Sequence[re.Pattern[str]]:
    """Compile wordings in which `#` stands for a number such as `16000` or `16,000`."""
    return [re.compile(wording.replace("#", r"(\d[\d,]{0,14})"), re.IGNORECASE) for wording in wordings]


def _found(patterns: Sequence[re.Pattern[str]], text: str) -> int | None:
    """Return the number in the first wording that matches; if it has several, their sum."""
    for pattern in patterns:
        if match := pattern.search(text):
            return sum(int(number.replace(",", "")) for number in match.groups() if number)
    return None


# Each has the providers that use it. The list of names is not complete: many servers use the wording of OpenAI or vLLM.
_LIMITS = _patterns(
    r"context length (?:is|of) only #",  # vLLM, LM Studio
    # OpenAI, vLLM, OpenRouter, DeepSeek, xAI, SGLang, TensorRT-LLM, Fireworks
    r"max(?:imum)? (?:context|prompt|input|sequence|model) length:? (?:is |of |\()?#",
    r"> # (?:maximum|limit)",  # Anthropic
    r"context limit: [\d,]+ \+ [\d,]+ > #",  # Anthropic, with the room for the reply
    r"context (?:size|length|window) \(#",  # llama.cpp, Together
    r"tokens allowed \(?#",  # Gemini
    r"(?:exceeds?|exceeded) (?:the )?(?:configured )?limit of #",  # OpenAI, GitHub Copilot, vLLM
    r"model with # maximum",  # Mistral
    r"maximum allowed (?:input |token )?(?:length|size) (?:of )?\(?#",  # SGLang, Poolside, NIM
    r"(?:model limit|model max length|max_input_len) \(?#",  # DashScope, MLX, TensorRT-LLM
    r"context (?:size is|window of) #",  # llama-cpp-python, DS4
    r"token limit: #",  # Moonshot
    r"input length should be \[\d+, ?#",  # DashScope
    r"must be <= #",  # text-generation-inference
    r"must have less than # tokens",  # the same
    r"max_(?:seq_len|num_tokens) \(#",  # SiliconFlow, TensorRT-LLM
    r"only supports up to #",  # Vertex AI
    r"while limit is #",  # Cerebras
    r"limit for this model is #",  # Cohere
    r"reached context length of #",  # LM Studio
    r"exceeds? (?:the maximum|model max):? #",  # Gemini
    r"max size: # tokens",  # GitHub
    r"cannot exceed #",  # Cohere
    r"n_ctx\W{1,4}#",  # llama.cpp, whose older message has no numbers
)
_ACTUALS = _patterns(
    r"\(# (?:in the messages|in your prompt|of text input)(?:, # (?:in the functions|of tool input))?",  # OpenAI
    r"# tokens from the input",  # SGLang
    r"resulted in #",  # OpenAI
    r"\b(?:has|contains|passed)(?: at least)? # (?:input |prompt )?tokens",  # vLLM, Mistral, xAI, DS4
    r"too long: #(?: tokens|,)",  # Anthropic, Fireworks
    r"context limit: # \+",  # Anthropic
    # llama.cpp, Together, SGLang, llama-cpp-python, vLLM
    r"(?:request|input|prompt|length|requested tokens) \((?:length )?#",
    r"prompt_tokens \(#",  # SiliconFlow
    r"token count (?:of |is |\()#",  # Gemini, Vertex AI, GitHub Copilot
    r"input tokens #",
    r"input # tokens >",
    r"total tokens # exceed",
    r"context length is \d{1,12}, but got #",
    r"current length is #",  # Cerebras
    r"input length # exceeds",  # Poolside
    r"given: #",  # text-generation-inference
    r"received #",  # Cohere
    r"keep the first #",  # LM Studio
    r"n_prompt_tokens\W{1,4}#",  # llama.cpp
)
_TOTALS = _patterns(
    r"requested(?: about| a total of|:)? #",  # OpenAI of old, OpenRouter, Moonshot
)
