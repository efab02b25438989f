"""A request that may fit is not refused, and one that cannot is."""

from __future__ import annotations

import pytest

from agent_runtime.context.tokens import TokenCalibration, too_long
from agent_runtime.context.tokens.encodings import encoder
from agent_runtime.context.tokens.message_overhead import REPLY, message_tokens
from tests.unit.context.tokens.corpus import CODE, PROSE, message
from tests.unit.context.tokens.test_context_usage import PROMPT, TOOLS

RULES = message("user", ("-" * 78 + "\n") * 200)
"""A text of 200 tokens that an estimate, which knows only kinds of characters, takes for some 9000."""


def counted(*messages: bytes) -> int:
    return sum(message_tokens(one, encoder("o200k_base").count) for one in messages)


@pytest.mark.parametrize("text", [*CODE, *(prose * 60 for prose in PROSE.values())])
async def test_a_known_model_is_counted_to_the_token(text: str) -> None:
    calibration, messages = TokenCalibration("openai/gpt-4o"), [PROMPT, message("user", text)]
    fixed, said = REPLY + counted(PROMPT), counted(messages[1])
    assert await too_long(calibration, messages, None, fixed + said) is None
    assert await too_long(calibration, messages, None, fixed + said - 1) == (said, said - 1)


@pytest.mark.parametrize("model", ["gpt-4o", "unknown"])
async def test_what_only_looks_long_fits(model: str) -> None:
    assert await too_long(TokenCalibration(model), [PROMPT, RULES], TOOLS, 4_000) is None


async def test_of_an_unknown_model_the_lesser_of_estimate_and_count_is_believed() -> None:
    messages = [PROMPT, message("user", CODE[0] * 20)]
    whole = REPLY + counted(*messages)
    sparing, lavish = TokenCalibration("unknown"), TokenCalibration("unknown")
    sparing.learn(1000, 600)
    lavish.learn(1000, 1600)
    assert await too_long(sparing, messages, None, round(whole * 0.8)) is None
    assert await too_long(lavish, messages, None, whole) is None
    assert await too_long(lavish, messages, None, whole - 1) is not None


async def test_tools_leave_less_room() -> None:
    calibration, messages = TokenCalibration("gpt-4o"), [PROMPT, message("user", CODE[0] * 20)]
    limit = REPLY + counted(*messages)
    assert await too_long(calibration, messages, None, limit) is None
    sizes = await too_long(calibration, messages, TOOLS, limit)
    assert sizes is not None
    assert sizes[0] == counted(messages[1])
    assert sizes[0] * 0.5 < sizes[1] < sizes[0]


async def test_where_prompt_and_tools_alone_do_not_fit_nothing_is_refused() -> None:
    messages = [message("system", CODE[0] * 20), message("user", CODE[0])]
    assert await too_long(TokenCalibration("gpt-4o"), messages, TOOLS, 500) is None
