"""What is done so that providers serve prompts from their caches, and how it is noticed when they do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_common.completions import read_usage
from agent_common.protocol import ModelCard, Usage
from agent_runtime.context import Step, ToolCallRecord, View
from agent_runtime.mesh.caching import (
    COLD_AFTER_MISSES,
    MAX_SESSIONS,
    WARM_SECONDS,
    CacheWatch,
    cache_key,
    with_cache_marks,
)
from agent_runtime.ports import ModelRequest
from agent_testing import ManualClock, Recorded, Say, ScriptedProvider
from tests.unit.mesh.test_model import client_of, collect

MARK = {"cache_control": {"type": "ephemeral"}}


def talk(steps: int = 2) -> View:
    view = View('You are "a1".\n"content":"x')
    view.add_user([{"type": "text", "text": 'say "content":"x"} é\\'}])
    for number in range(steps):
        view.add_step(
            Step("", [ToolCallRecord(f'c{number}","content":"', "read", {}, {"type": "output", "data": "ü"})])
        )
    return view


def plain(message: dict[str, Any]) -> dict[str, Any]:
    """A message without its mark."""
    content = message["content"]
    if isinstance(content, list):
        [part] = content
        assert part.pop("cache_control") == MARK["cache_control"]
        assert part.pop("type") == "text"
        content = part.pop("text")
        assert not part
    return {**message, "content": content}


def test_the_first_and_the_last_message_are_marked_and_say_the_same() -> None:
    messages = talk().messages
    found = [json.loads(message) for message in with_cache_marks(messages)]
    assert [isinstance(message["content"], list) for message in found] == [True, *[False] * (len(found) - 2), True]
    assert [plain(message) for message in found] == [json.loads(message) for message in messages]
    assert all(a is b for a, b in zip(with_cache_marks(messages)[1:-1], messages[1:-1], strict=True)), (
        "the others are not touched"
    )


def test_what_has_no_text_is_not_marked() -> None:
    for message in (b'{"role":"user","content":""}', b'{"role":"assistant","content":null,"tool_calls":[]}'):
        assert list(with_cache_marks([message])) == [message]
        assert with_cache_marks([b'{"role":"system","content":"s"}', message])[-1] == message
    assert with_cache_marks([]) == []


def test_requests_extend_each_other_marks_aside() -> None:
    view, before = talk(0), list[dict[str, Any]]()
    for number in range(5):
        now = [plain(json.loads(message)) for message in with_cache_marks(view.messages)]
        assert now[: len(before)] == before
        before = now
        view.add_step(Step(f"step {number}", [ToolCallRecord(f"c{number}", "read", {}, {"type": "output"})]))


async def asked(caching: str, *sessions: str) -> list[Recorded]:
    card = ModelCard.model_validate({"id": "default", "caching": caching})
    with ScriptedProvider(otherwise=Say("ok"), models=[card]) as provider:
        async with client_of(provider.url) as (client, catalog):
            await catalog.models()
            for session in sessions:
                await collect(client, ModelRequest("default", talk().messages, session_id=session))
        return provider.completions


@pytest.mark.parametrize("caching", ["none", "automatic", "key", "breakpoints", "a way of tomorrow"])
async def test_a_request_has_what_the_models_card_says(caching: str) -> None:
    first, again, other, nobody = [one.fields for one in await asked(caching, "ses_1", "ses_1", "ses_2", "")]
    keys = [one.get("prompt_cache_key") for one in (first, again, other, nobody)]
    if caching == "key":
        assert keys == [cache_key("ses_1"), cache_key("ses_1"), cache_key("ses_2"), None]
        assert len(set(keys)) == 3
        assert "ses_1" not in str(keys)
    else:
        assert keys == [None] * 4
    assert ("cache_control" in json.dumps(first)) == (caching == "breakpoints")
    assert [plain(message) for message in first["messages"]] == [json.loads(message) for message in talk().messages]


# ---------------------------------------------------------------- the watch


def test_a_model_that_never_reads_from_its_cache_is_found() -> None:
    watch = CacheWatch(ManualClock())
    for _ in range(COLD_AFTER_MISSES):
        assert not watch.cold_models
        watch.record_usage("m", "s", Usage(input=5000))
    watch.record_usage("m", "s", Usage(input=5000))
    assert watch.cold_models == {"m"}
    watch.record_usage("m", "s", Usage(input=10, cache_read=4990))
    assert not watch.cold_models, "it does now"
    watch.record_usage("n", "s", Usage(input=1, output=9, cache_write=1, cache_read=2), watched=False)
    assert watch.hit_rates() == {"m": 0.1426, "n": 0.5}


def test_a_hit_now_and_then_is_enough() -> None:
    watch = CacheWatch(ManualClock())
    for _ in range(5):
        for _ in range(COLD_AFTER_MISSES):
            watch.record_usage("m", "s", Usage(input=5000))
        watch.record_usage("m", "s", Usage(input=5000, cache_read=1))
    assert not watch.cold_models


@pytest.mark.parametrize("usage", [Usage(input=1023), Usage(output=9999)])
def test_short_prompts_are_cached_by_nobody(usage: Usage) -> None:
    watch = CacheWatch(ManualClock())
    for _ in range(3 * COLD_AFTER_MISSES):
        watch.record_usage("m", "s", usage)
    assert not watch.cold_models


def test_first_requests_and_late_ones_prove_nothing() -> None:
    clock = ManualClock()
    watch = CacheWatch(clock)
    for number in range(3 * MAX_SESSIONS):
        watch.record_usage("m", f"s{number}", Usage(input=5000, cache_write=5000))
    for _ in range(3 * COLD_AFTER_MISSES):
        watch.record_usage("m", "s", Usage(input=5000))
        clock.advance(WARM_SECONDS + 1)
    assert not watch.cold_models


async def test_only_what_a_capable_model_reports_is_watched(caplog: pytest.LogCaptureFixture) -> None:
    cards = [ModelCard(id="able", caching="automatic"), ModelCard(id="plain")]
    usage = {"prompt_tokens": 5000, "completion_tokens": 1}
    with ScriptedProvider(otherwise=Say("ok", usage=usage), models=cards) as provider:
        async with client_of(provider.url) as (client, catalog):
            await catalog.models()
            for _ in range(2 * COLD_AFTER_MISSES):
                for model in ("able", "plain"):
                    await collect(client, ModelRequest(model, talk().messages, session_id="s"))
                await collect(client, ModelRequest("able", talk().messages))
            assert catalog.cache_watch.cold_models == {"able"}
    assert sum("prompt cache is never hit" in str(record.msg) for record in caplog.records) == 1, "it is said once"


def test_all_dialects_of_cached_tokens_are_read() -> None:
    for report in (
        {"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30}},
        {"prompt_tokens": 100, "prompt_cache_hit_tokens": 60, "cache_creation_input_tokens": 30},
        {"prompt_tokens": 100, "num_cached_tokens": 60, "cache_write_tokens": 30},
        {
            "prompt_tokens": 100,
            "prompt_tokens_details": {
                "cached_tokens": 60,
                "cache_creation": {"ephemeral_5m_input_tokens": 30},
                "cache_creation_input_tokens": 30,
            },
        },
        {"prompt_tokens": 100, "prompt_tokens_details": {"cache_read_input_tokens": 60, "cache_write_tokens": 30}},
        {
            "prompt_tokens": 100,
            "prompt_cache_hit_tokens": 60,
            "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 10, "type": "odd"},
        },
        {
            "prompt_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 0},
            "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 30},
        },
    ):
        assert read_usage(report) == Usage(input=10, cache_read=60, cache_write=30)
