"""What providers say about a prompt that is too long."""

from __future__ import annotations

import time

import pytest

from agent_common.completions import OverflowReport, overflow_of

PREFIX = "the model endpoint answered 400: "

# Wordings as they were met in the wild.
SAID: tuple[tuple[str, int | None, int | None], ...] = (
    # OpenAI, Azure
    (
        "This model's maximum context length is 16000 tokens. However, your messages resulted in 17321 tokens. Please "
        "reduce the length of the messages.",
        16_000,
        17_321,
    ),
    (
        "This model's maximum context length is 16385 tokens. However, your messages resulted in 17321 tokens (16321 "
        "in the messages, 1000 in the functions). Please reduce the length of the messages or functions.",
        16_385,
        17_321,
    ),
    (
        "This model's maximum context length is 4097 tokens. However, you requested 4203 tokens (3703 in the messages, "
        "500 in the completion). Please reduce the length of the messages or completion.",
        4_097,
        3_703,
    ),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 9203 tokens (7203 in the messages, "
        "1000 in the functions, and 1000 in the completion).",
        8_192,
        8_203,
    ),
    (
        "This model's maximum context length is 2049 tokens, however you requested 2054 tokens (2049 in your prompt; 5 "
        "for the completion). Please reduce your prompt; or completion length.",
        2_049,
        2_049,
    ),
    (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 1281286 tokens. Please "
        "reduce the length of the messages.",
        272_000,
        1_281_286,
    ),
    # Anthropic
    ("prompt is too long: 210000 tokens > 200000 maximum", 200_000, 210_000),
    (
        "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or "
        "`max_tokens` and try again",
        200_000,
        178_959,
    ),
    # OpenRouter
    (
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 132463 tokens (1463 of "
        "text input, 131000 in the output). Please reduce the length of either one.",
        131_072,
        1_463,
    ),
    (
        "This endpoint's maximum context length is 32768 tokens. However, you requested about 40100 tokens (33000 of "
        "text input, 3100 of tool input, 4000 in the output).",
        32_768,
        36_100,
    ),
    # vLLM, early and late
    (
        "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the "
        "messages, 10000 in the completion). Please reduce the length of the messages or completion.",
        16_384,
        112_946,
    ),
    (
        "This model's maximum context length is 32768 tokens. However, your request has 40000 input tokens. Please "
        "reduce the length of the input messages.",
        32_768,
        40_000,
    ),
    (
        "You passed 10243 input tokens and requested 6142 output tokens. However, the model's context length is only "
        "16384 tokens, resulting in a maximum input length of 10242 tokens. Please reduce the length of the input "
        "prompt. (parameter=input_tokens, value=10243)",
        16_384,
        10_243,
    ),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 2000. This model's maximum context length is 4096 "
        "tokens and your request has 2104 input tokens (2000 > 4096 - 2104).",
        4_096,
        2_104,
    ),
    (
        "This model's maximum context length is 8192 tokens. However, you requested 512 output tokens and your prompt "
        "contains at least 7681 input tokens, for a total of at least 8193 tokens.",
        8_192,
        7_681,
    ),
    ("Input prompt (2664 tokens) is too long and exceeds limit of 2048", 2_048, 2_664),
    # SGLang
    (
        "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input",
        59_862,
        160_062,
    ),
    (
        "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of "
        "140000 tokens: 130000 tokens from the input messages and 10000 tokens for the completion.",
        131_072,
        130_000,
    ),
    # llama.cpp
    ("request (131168 tokens) exceeds the available context size (131072 tokens), try increasing it", 131_072, 131_168),
    (
        '{"code":400,"message":"the request exceeds the available context size. try increasing the context size or '
        'enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}',
        8_192,
        14_429,
    ),
    ("Requested tokens (2285) exceed context window of 2048", 2_048, 2_285),
    # Others
    ("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 1_048_575, 1_196_265),
    ("Prompt contains 300000 tokens, too large for model with 131072 maximum context length", 131_072, 300_000),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072, 537_812),
    ("The input (516368 tokens) is longer than the model's context length (262144 tokens).", 262_144, 516_368),
    ("prompt token count of 145000 exceeds the limit of 128000", 128_000, 145_000),
    ("Input length 265330 exceeds the maximum allowed input length of 262144 tokens.", 262_144, 265_330),
    ("Prompt has 300,000 tokens, but the configured context size is 131,072 tokens", 131_072, 300_000),
    ("Range of input length should be [1, 129024]", 129_024, None),
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and "
        "512 `max_new_tokens`",
        4_096,
        4_000,
    ),
    (
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5217. Try using a shorter "
        "prompt",
        4_081,
        5_217,
    ),
    (
        "Trying to keep the first 4866 tokens when context the overflows. However, the model is loaded with context "
        "length of only 4096 tokens, which is not enough.",
        4_096,
        4_866,
    ),
    ("The decoder prompt (length 40000) is longer than the maximum model length of 32768.", 32_768, 40_000),  # vLLM
    ("length of prompt_tokens (141078) must be less than max_seq_len (131072).", 131_072, 141_078),  # SiliconFlow
    (
        "Unable to submit request because the input token count is 36000 but model only supports up to 32768. Reduce "
        "the input token count and try again.",
        32_768,
        36_000,
    ),
    ("Input tokens 200000 exceed the limit of 128000", 128_000, 200_000),
    ("Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", 4_096, 5_000),
    ("Please reduce the length of the messages. Current length is 12000 while limit is 8192", 8_192, 12_000),
    ("The sum of prompt length (5000), query length (0) should not exceed max_num_tokens (4096)", 4_096, 5_000),
    ("Prompt length (5000) exceeds maximum input length (4096).", 4_096, 5_000),
    ("Request body too large for large-2 model. Max size: 8000 tokens.", 8_000, None),  # GitHub, with 413
    ("The prompt is too long: 163843, model maximum context length: 163839", 163_839, 163_843),  # Fireworks
    (
        "too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs. The limit for this "
        "model is 128000 tokens.",
        128_000,
        None,
    ),  # Cohere
    ("Reached context length of 4096 tokens, but this model does not support context overflow", 4_096, None),
    ("Input token count (1200000) exceeds the maximum: 1048576", 1_048_576, 1_200_000),
    ("The input length 5000 exceeds maximum input length 4096", 4_096, 5_000),
    ("The max context length is 131072, but got 140000", 131_072, 140_000),
    ("Input 140000 tokens > 131072 limit", 131_072, 140_000),
    ("total tokens 140000 exceed model max 131072", 131_072, 140_000),
)


@pytest.mark.parametrize(("text", "limit", "actual"), SAID)
def test_sizes_are_read_from_what_providers_say(text: str, limit: int | None, actual: int | None) -> None:
    assert overflow_of(PREFIX + text) == OverflowReport(limit, actual)


@pytest.mark.parametrize(
    ("text", "limit", "total"),
    [
        ("Your request exceeded model token limit: 262144 (requested: 300000)", 262_144, 300_000),
        ("This model's maximum context length is 8192 tokens. However, you requested 254457 tokens", 8_192, 254_457),
    ],
)
def test_a_total_that_contains_the_reply_says_so(text: str, limit: int, total: int) -> None:
    assert overflow_of(PREFIX + text) == OverflowReport(limit, total, with_reply=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "Input is too long for requested model.",
        "invalid params, context window exceeds limit",
        "model_context_window_exceeded",
        "prompt too long; exceeded max context length by 4096 tokens",
        "Please reduce the length of the messages or completion.",
        "400 status code (no body)",
        "The server had an error while processing your request 123456.",
        # Of rates, not of windows.
        "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41000.",
        "Rate limit reached: maximum context length is 8192 tokens per minute, your messages resulted in 9000 tokens",
        "Throttling error: Too many tokens (5000), please wait before trying again.",
        "You exceeded your current quota, limit of 100000 tokens",
        "Too many tokens per day, please wait before trying again.",
        "Max size: 8000 bytes",
        "Exceeded limit on max bytes to request body : 6291456",
        "Too many images in the messages: 1000 > 256 images",
        "tools must be at most 300, but got 400",
        # Nonsense.
        "This model's maximum context length is 7 tokens.",
        "prompt is too long: 0 tokens > 99999999999 maximum",
        "maximum context length is many tokens",
    ],
)
def test_what_states_no_size_gives_none(text: str) -> None:
    assert overflow_of(PREFIX + text) is None


def test_a_long_text_takes_no_time() -> None:
    began = time.process_time()
    for text in (
        "1" * 1_000_000,
        "context limit: 1 + " * 50_000,
        "(1 in the messages, " * 50_000,
        "exceeds the " * 9_000,
    ):
        overflow_of(text)
    assert time.process_time() - began < 3
