"""A gauge knows how full the window is: nearly, cheaply, and whatever it is told."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from agent_runtime.context import serialize_tools
from agent_runtime.context.tokens import ContextUsage, TokenCalibration
from agent_runtime.ports import ToolSpec
from tests.unit.context.tokens.corpus import CODE, DOCUMENTS, PROSE, CountingProvider, answered, message, turn

FACTORS = (0.7, 0.8, 0.9, 1.0, 1.15, 1.3, 1.45, 1.6)
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "The file, relative to your workspace."},
        "offset": {"type": "integer", "description": "The first line to show, counted from 1."},
        "mode": {"type": "string", "enum": ["text", "binary"]},
    },
    "required": ["path"],
}
NAMES = ("bash", "edit", "glob", "grep", "read", "task", "todo", "write")
TOOLS = serialize_tools([ToolSpec(name, f"What the tool {name} does, in a sentence or two.", SCHEMA) for name in NAMES])
PROMPT = message("system", DOCUMENTS[0][:3000])


def talk(
    gauge: ContextUsage, provider: CountingProvider, turns: Sequence[Sequence[bytes]]
) -> Iterator[tuple[int, int, int]]:
    """Number of the turn, estimate and report of every call."""
    messages = [PROMPT]
    for number, said in enumerate(turns, 1):
        for one in said:
            messages.append(one)
            if one.startswith((b'{"role":"user"', b'{"role":"tool"')):
                estimate, report = gauge.occupancy(messages, TOOLS), provider.prompt_tokens(messages, TOOLS)
                yield number, estimate, report
                gauge.record_count(len(messages), report)


def conversation(seed: int, turns: int = 8) -> list[list[bytes]]:
    """People stay with a language, and now and then show something in another one."""
    rng = random.Random(seed)
    language = rng.choice(list(PROSE))
    return [turn(rng, language if rng.random() < 0.8 else rng.choice(list(PROSE))) for _ in range(turns)]


# ---------------------------------------------------------------- how near


@pytest.mark.parametrize("factor", FACTORS)
def test_from_the_third_turn_on_an_unknown_model_is_met_within_a_tenth(factor: float) -> None:
    off = [
        abs(estimate / report - 1)
        for seed in range(40)
        for number, estimate, report in talk(
            ContextUsage(TokenCalibration("unknown")), CountingProvider(factor), conversation(seed)
        )
        if number >= 3
    ]
    assert len(off) > 400
    assert max(off) < 0.1
    assert sum(off) / len(off) < 0.02


@pytest.mark.parametrize("factor", FACTORS)
def test_a_text_larger_than_all_before_is_met_within_a_quarter(factor: float) -> None:
    """Nothing that was reported tells of it: here the estimate stands alone."""
    for text in (*CODE, *DOCUMENTS, *(prose * 60 for prose in PROSE.values())):
        gauge, provider, messages = (
            ContextUsage(TokenCalibration("unknown")),
            CountingProvider(factor),
            [PROMPT[:600] + b'"}'],
        )
        for said in conversation(12, turns=3):
            messages += said
            gauge.occupancy(messages)
            gauge.record_count(len(messages), provider.prompt_tokens(messages))
        messages.append(answered({"stdout": text}))
        assert gauge.occupancy(messages) == pytest.approx(provider.prompt_tokens(messages), rel=0.25)


@pytest.mark.parametrize("factor", FACTORS)
def test_the_factor_is_learnt_for_other_conversations(factor: float) -> None:
    meter = TokenCalibration("unknown")
    for seed in range(5):
        list(talk(ContextUsage(meter), CountingProvider(factor), conversation(seed)))
    assert meter.factor == pytest.approx(factor, rel=0.15)
    for _, estimate, report in talk(ContextUsage(meter), CountingProvider(factor), conversation(99)):
        assert estimate == pytest.approx(report, rel=0.25)


def test_a_compaction_keeps_what_was_learnt() -> None:
    gauge, provider = ContextUsage(TokenCalibration("unknown")), CountingProvider(1.6)
    list(talk(gauge, provider, conversation(3)))
    gauge.reset()
    short = [PROMPT, message("user", DOCUMENTS[1][:4000])]
    assert gauge.occupancy(short) == pytest.approx(provider.prompt_tokens(short), rel=0.15)


def test_costs_add_up_to_what_messages_cost() -> None:
    gauge, provider = ContextUsage(TokenCalibration("unknown")), CountingProvider(1.3)
    list(talk(gauge, provider, conversation(4)))
    messages = [PROMPT, *(one for said in conversation(4) for one in said)]
    costs = gauge.costs(messages)
    assert len(costs) == len(messages)
    assert sum(costs) == pytest.approx(provider.prompt_tokens(messages), rel=0.15)
    assert gauge.text_tokens("") == 1
    assert gauge.text_tokens(CODE[0]) == pytest.approx(gauge.costs([message("user", CODE[0])])[0], rel=0.1)


# ---------------------------------------------------------------- reports that are odd


def grown() -> tuple[ContextUsage, CountingProvider, list[bytes]]:
    """A conversation in which the model has reported some calls."""
    gauge, provider = ContextUsage(TokenCalibration("unknown")), CountingProvider(1.2)
    list(talk(gauge, provider, conversation(7)))
    return gauge, provider, [PROMPT, *(one for said in conversation(7) for one in said)]


@pytest.mark.parametrize("odd", [0, -1, 1, 40, 10**9, 2**62])
def test_a_report_that_cannot_be_true_changes_nothing(odd: int) -> None:
    gauge, provider, messages = grown()
    for _ in range(3):
        assert gauge.occupancy(messages, TOOLS) == pytest.approx(provider.prompt_tokens(messages, TOOLS), rel=0.1)
        gauge.record_count(len(messages), odd)


def test_a_provider_that_reports_only_what_was_not_cached_does_not_hide_the_rest() -> None:
    gauge, provider, messages = grown()
    true = provider.prompt_tokens(messages, TOOLS)
    for part in (0.3, 0.05, 0.45, 0.02):
        assert gauge.occupancy(messages, TOOLS) > true * 0.9
        gauge.record_count(len(messages), round(true * part))


def test_another_model_behind_the_same_name_is_believed_at_its_second_report() -> None:
    gauge, _, messages = grown()
    other = CountingProvider(0.6)
    for _ in range(2):
        gauge.occupancy(messages, TOOLS)
        gauge.record_count(len(messages), other.prompt_tokens(messages, TOOLS))
    assert gauge.occupancy(messages, TOOLS) == other.prompt_tokens(messages, TOOLS)


def test_a_report_about_a_request_that_nobody_asked_about_is_ignored() -> None:
    gauge = ContextUsage(TokenCalibration("unknown"))
    gauge.record_count(0, 100)
    gauge.record_count(5, 100)
    gauge.record_overflow("prompt is too long: 210000 tokens > 200000 maximum")
    assert gauge.occupancy([]) == 0


# ---------------------------------------------------------------- the window is full


def test_an_error_about_the_window_teaches() -> None:
    gauge, messages = ContextUsage(TokenCalibration("unknown")), [PROMPT, message("user", DOCUMENTS[1])]
    first = gauge.occupancy(messages)
    said = gauge.record_overflow(
        f"This model's maximum context length is 1000 tokens. However, your messages resulted in {first * 3} tokens."
    )
    assert said is not None
    assert (said.limit, said.actual) == (1000, first * 3)
    assert gauge.occupancy(messages) == first * 3
    gauge.reset()
    assert gauge.occupancy(messages) == pytest.approx(first * 3, rel=0.01)


def test_an_error_that_states_the_window_alone_teaches_that_it_is_full() -> None:
    gauge, messages = ContextUsage(TokenCalibration("unknown")), [PROMPT, message("user", DOCUMENTS[1])]
    window = gauge.occupancy(messages) * 2
    assert gauge.record_overflow(f"the request exceeds the available context size ({window} tokens)") is not None
    assert gauge.occupancy(messages) > window
    assert gauge.record_overflow("Input is too long for requested model.") is None
    assert gauge.occupancy(messages) == window + 1


def test_an_error_that_states_less_than_was_known_changes_nothing() -> None:
    gauge, _, messages = grown()
    before = gauge.occupancy(messages, TOOLS)
    gauge.record_overflow("prompt is too long: 1000 tokens > 900 maximum")
    gauge.record_overflow("Input is too long for requested model.")
    assert gauge.occupancy(messages, TOOLS) == before


def test_a_number_with_the_reply_in_it_does_not_change_the_factor() -> None:
    gauge, messages = ContextUsage(TokenCalibration("unknown")), [PROMPT, message("user", DOCUMENTS[1])]
    first = gauge.occupancy(messages)
    gauge.record_overflow(f"Your request exceeded model token limit: {first} (requested: {first * 3})")
    assert gauge.occupancy(messages) == first * 3
    gauge.reset()
    assert gauge.occupancy(messages) == first


# ---------------------------------------------------------------- conversations that change


def test_a_conversation_that_is_written_anew_is_noticed() -> None:
    gauge, _, messages = grown()
    gauge.occupancy(messages, TOOLS)
    for other in (messages[:5], [*messages[:-1], message("user", "something else")], [PROMPT], []):
        fresh = ContextUsage(gauge.calibration)
        assert gauge.occupancy(other, TOOLS) == fresh.occupancy(other, TOOLS)


def test_a_conversation_that_is_read_back_is_the_same_one() -> None:
    gauge, provider, messages = grown()
    gauge.occupancy(messages, TOOLS)
    gauge.record_count(len(messages), provider.prompt_tokens(messages, TOOLS))
    again = [bytes(bytearray(one)) for one in messages]
    assert gauge.occupancy(again, TOOLS) == provider.prompt_tokens(messages, TOOLS)


def test_another_prompt_and_other_tools_are_counted_beside_the_last_report() -> None:
    gauge, provider, messages = grown()
    gauge.occupancy(messages, TOOLS)
    gauge.record_count(len(messages), provider.prompt_tokens(messages, TOOLS))
    messages[0] = message("system", CODE[0])
    for tools in (TOOLS, None):
        assert gauge.occupancy(messages, tools) == pytest.approx(provider.prompt_tokens(messages, tools), rel=0.1)


def test_another_model_counts_by_its_own_factor() -> None:
    gauge, _, messages = grown()
    before = gauge.occupancy(messages, TOOLS)
    meter = TokenCalibration("other")
    meter.learn(1000, 2400)
    gauge.switch_calibration(meter)
    assert gauge.occupancy(messages, TOOLS) == pytest.approx(before * 2, rel=0.2)
    gauge.switch_calibration(meter)


def test_each_message_is_measured_once() -> None:
    """The work of a call does not grow with the conversation."""
    gauge = ContextUsage(TokenCalibration("unknown"))
    messages = [message("user", f"{number} {CODE[0][:2000]}") for number in range(3000)]
    began = time.process_time()
    gauge.occupancy(messages, TOOLS)
    first = time.process_time() - began
    began = time.process_time()
    for number in range(30):
        messages.append(answered(number))
        gauge.occupancy(messages, TOOLS)
    assert time.process_time() - began < first / 5


def test_a_prompt_that_was_cut_shows_the_window_and_is_not_learned_from() -> None:
    """The prompt grows, and what the model counts of it does not."""
    calibration = TokenCalibration("m")
    usage = ContextUsage(calibration)
    messages = [message("user", "word " * 6000)]
    usage.occupancy(messages)
    usage.record_count(1, 2051)
    assert calibration.limit is None, "another tokenizer could count so"
    messages.append(message("user", "word " * 6000))
    usage.occupancy(messages)
    usage.record_count(2, 2051)
    assert (calibration.limit, calibration.factor) == (2051, 1.0)


@pytest.mark.parametrize("reported", [(6000, 12000), (3000, 6000), (900, 900), (6000, 11000)])
def test_counts_that_grow_with_the_prompt_show_no_window(reported: tuple[int, int]) -> None:
    calibration = TokenCalibration("m")
    usage, messages = ContextUsage(calibration), [message("user", "word " * 6000)]
    for count in reported:
        usage.occupancy(messages)
        usage.record_count(len(messages), count)
        messages.append(message("user", "word " * 6000))
    assert calibration.limit is None


def grow_slowly(count: Callable[[int, int], int]) -> TokenCalibration:
    """Return the calibration of a model that counts 60 small messages, one request each: `count` is given the tokens of
    all messages and of the new one."""
    calibration, provider = TokenCalibration("m"), CountingProvider(1.0)
    usage, messages, before = ContextUsage(calibration), list[bytes](), 0
    for number in range(60):
        messages.append(message("user", f"{number} " + "word " * 250))
        usage.occupancy(messages)
        true = provider.prompt_tokens(messages, None)
        usage.record_count(len(messages), count(true, true - before))
        before = true
    return calibration


def test_a_prompt_that_grows_slowly_is_seen_to_be_cut() -> None:
    calibration = grow_slowly(lambda true, _: min(true, 4096))
    assert (calibration.limit, calibration.factor) == (4096, 1.0)


@pytest.mark.parametrize("count", [lambda true, _: true, lambda true, new: true if true < 9000 else 1200 + new % 7])
def test_a_prompt_that_grows_slowly_and_is_not_cut_shows_no_window(count: Callable[[int, int], int]) -> None:
    """The second model leaves out what its cache has served."""
    assert grow_slowly(count).limit is None


def test_the_counts_of_one_model_show_no_window_of_another() -> None:
    first, second = TokenCalibration("first"), TokenCalibration("second")
    usage, messages = ContextUsage(first), [message("user", "word " * 6000)]
    usage.occupancy(messages)
    usage.record_count(1, 6000)
    usage.switch_calibration(second)
    messages.append(message("user", "word " * 6000))
    usage.occupancy(messages)
    usage.record_count(2, 6100)
    assert second.limit is None
