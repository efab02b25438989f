"""Summing up what is too long, rung by rung."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic_core import to_json

from agent_common.protocol import CompactionPolicy, SmartRecovery, Usage
from agent_runtime.context.transcript import PRUNED_CHARACTERS
from agent_runtime.errors import ModelError
from agent_runtime.loop.compaction.summary_strategies import MAX_CALLS, FallbackSummarizer, NoSummary, Summary

SPENT = Usage(input=100, output=10)
FACT = re.compile(r"FACT-\d+")
TOO_LONG = ModelError("maximum context length exceeded", code="context_overflow")


def facts(text: str) -> str:
    return " ".join(dict.fromkeys(FACT.findall(text)))


@dataclass
class Scripted:
    """A writer that keeps the facts. A token is four characters."""

    max_input_tokens: int = 10_000
    takes: int | None = None
    """Tokens that it really takes; what is longer overflows."""
    tells: bool = False
    """It learns from an overflow how much that is."""
    answers: dict[int, Any] = field(default_factory=dict[int, Any])
    """By the number of the call: another answer, or an error."""
    reply: Callable[[str], str] = facts
    told: list[str] = field(default_factory=list[str])
    total_usage: Usage = field(default_factory=Usage)

    def count_tokens(self, text: str) -> int:
        return -(-len(text) // 4)

    async def summarize(self, transcript: str) -> Summary:
        self.told.append(transcript)
        if self.takes is not None and self.count_tokens(transcript) > self.takes:
            if self.tells:
                self.max_input_tokens = self.takes
            raise TOO_LONG
        self.total_usage = self.total_usage.plus(SPENT)
        answer = self.answers.get(len(self.told), self.reply(transcript))
        if isinstance(answer, Exception):
            raise answer
        return Summary(answer, self.count_tokens(answer), model="cheap")


def user(text: str) -> bytes:
    return to_json({"role": "user", "content": text})


def result(text: str, number: int, tool: str = "read") -> list[bytes]:
    call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    return [
        to_json({"role": "assistant", "content": None, "tool_calls": [call]}),
        to_json({"role": "tool", "tool_call_id": f"c{number}", "content": text}),
    ]


def talk(turns: int, length: int = 400) -> list[bytes]:
    return [user(f"FACT-{number} " + "x" * length) for number in range(turns)]


ALL = CompactionPolicy()


def without(*rungs: str) -> CompactionPolicy:
    return CompactionPolicy(smart_recovery=SmartRecovery(**dict.fromkeys(rungs, False)))


async def summed_up(writer: Scripted, messages: Sequence[bytes], policy: CompactionPolicy = ALL) -> Summary:
    return await FallbackSummarizer(writer, policy).summarize(messages)


async def test_what_fits_is_summed_up_at_once() -> None:
    writer = Scripted()
    summary = await summed_up(writer, talk(10))
    assert summary.text == facts(" ".join(f"FACT-{n}" for n in range(10)))
    assert (summary.usage, summary.model) == (SPENT, "cheap")
    assert len(writer.told) == 1


def long_results() -> list[bytes]:
    """Ten results of a thousand tokens and one fact between each two."""
    found: list[bytes] = []
    for number in range(10):
        found += [user(f"FACT-{number}"), *result("r" * 4000, number)]
    return found


async def test_old_results_are_pruned_before_anything_is_cut_up() -> None:
    writer = Scripted(max_input_tokens=6000)
    summary = await summed_up(writer, long_results())
    assert summary.text.count("FACT") == 10
    assert len(writer.told) == 1
    assert writer.told[0].count("r" * 4000) == 4
    assert writer.told[0].count("r" * PRUNED_CHARACTERS + "... [the rest was pruned]") == 6


async def test_without_pruning_it_is_summed_up_in_pieces() -> None:
    writer = Scripted(max_input_tokens=6000)
    summary = await summed_up(writer, long_results(), without("prune_tool_outputs"))
    assert summary.text.count("FACT") == 10
    assert [text[:25] for text in writer.told] == [
        "[This is part 1 of 2.]\n<m",
        "[This is part 2 of 2.]\n<m",
        writer.told[2][:25],
    ]
    assert writer.told[2].startswith('<message by="summary of part 1 of 2">\nFACT-0')
    assert "the rest was pruned" not in "".join(writer.told)
    assert summary.usage == Usage(input=300, output=30)


async def test_pieces_lose_nothing_however_long_a_message_is() -> None:
    told = " ".join(f"FACT-{number} " + "x" * 90 for number in range(100))
    writer = Scripted(max_input_tokens=700)
    summary = await summed_up(writer, [user(told)])
    assert summary.text == facts(told)
    assert len(writer.told) > 4
    assert all(writer.count_tokens(text) <= 700 for text in writer.told)


async def test_summaries_of_pieces_that_are_still_too_long_are_summed_up_in_pieces_again() -> None:
    """Each piece becomes a third of it: it takes more than one round until all fits."""

    def third(text: str) -> str:
        return facts(text) + " " + "y" * (len(text) // 3)

    writer = Scripted(max_input_tokens=600, reply=third)
    summary = await summed_up(writer, talk(30))
    assert summary.text.count("FACT") == 30
    rounds = {match[1] for text in writer.told if (match := re.match(r"\[This is part 1 of (\d+)", text))}
    assert len(rounds) > 1


async def test_a_piece_shorter_than_its_summary_is_kept_as_it_is() -> None:
    """The last piece is often a short one."""
    writer = Scripted(max_input_tokens=1000, answers={2: "w" * 2000, 3: "w" * 2000})
    messages = [user("FACT-1 " + "x" * 3700), user("FACT-2 end")]
    summary = await summed_up(writer, messages, without("drop_middle"))
    assert summary.text == "FACT-1 FACT-2"
    assert "FACT-2 end" in writer.told[-1]


async def test_no_piece_may_come_back_empty() -> None:
    writer = Scripted(max_input_tokens=1000, answers={2: " ", 3: "\n"})
    with pytest.raises(NoSummary, match="part 2"):
        await summed_up(writer, talk(20))
    assert len(writer.told) == 3


async def test_an_empty_piece_gets_another_attempt() -> None:
    writer = Scripted(max_input_tokens=1500, answers={2: " "})
    summary = await summed_up(writer, talk(20))
    assert summary.text.count("FACT") == 20


async def test_without_pieces_the_middle_is_left_out() -> None:
    writer = Scripted(max_input_tokens=1000)
    summary = await summed_up(writer, talk(40), without("chunked_summarize"))
    assert "FACT-0" in summary.text
    assert "FACT-39" in summary.text
    assert "FACT-20" not in summary.text
    [told] = writer.told
    assert re.search(r"\[\d+ messages in between do not fit and were left out\]", told)


async def test_with_every_rung_off_there_is_none() -> None:
    writer = Scripted(max_input_tokens=1000)
    with pytest.raises(NoSummary, match="too long to be summarized"):
        await summed_up(writer, talk(40), without("prune_tool_outputs", "chunked_summarize", "drop_middle"))
    assert not writer.told


@pytest.mark.parametrize("rung", ["prune_tool_outputs", "chunked_summarize", "drop_middle"])
async def test_a_writer_without_room_gives_none(rung: str) -> None:
    writer = Scripted(max_input_tokens=400)
    with pytest.raises(NoSummary, match="too long to be summarized"):
        await summed_up(writer, talk(40), without(rung))
    assert not writer.told


# ---------------------------------------------------------------- answers that are none


@pytest.mark.parametrize("answer", ["", " \n", "w" * 20_000])
async def test_a_useless_answer_is_refused_after_another_attempt(answer: str) -> None:
    writer = Scripted(answers={1: answer, 2: answer})
    with pytest.raises(NoSummary, match="summary is empty"):
        await summed_up(writer, talk(10))
    assert len(writer.told) == 2


async def test_the_second_attempt_may_do_and_both_are_paid_for() -> None:
    writer = Scripted(answers={1: ""})
    summary = await summed_up(writer, talk(10))
    assert summary.text.startswith("FACT-0")
    assert summary.usage == Usage(input=200, output=20)


async def test_what_was_said_in_a_word_needs_no_longer_summary() -> None:
    writer = Scripted(reply=lambda _: "The person greeted the agent, and the agent greeted the person. " * 3)
    with pytest.raises(NoSummary):
        await summed_up(writer, [user("hi")])


@pytest.mark.parametrize("code", ["model_unavailable", "model_auth", "model_config"])
async def test_a_model_that_fails_for_good_ends_it(code: Any) -> None:
    writer = Scripted(max_input_tokens=1000, answers={2: ModelError("it is gone", code=code)})
    with pytest.raises(NoSummary, match="it is gone"):
        await summed_up(writer, talk(40))
    assert len(writer.told) == 2


# ---------------------------------------------------------------- windows smaller than thought


async def test_what_overflows_though_it_should_fit_is_cut_smaller() -> None:
    writer = Scripted(max_input_tokens=10_000, takes=1500)
    summary = await summed_up(writer, talk(40))
    assert summary.text.count("FACT") == 40, "pieces are made smaller before anything is left out"
    refused = [text for text in writer.told if writer.count_tokens(text) > 1500]
    assert 0 < len(refused) <= 4


async def test_a_window_that_was_told_is_believed() -> None:
    writer = Scripted(max_input_tokens=10_000, takes=1500, tells=True)
    summary = await summed_up(writer, talk(40))
    assert summary.text.count("FACT") == 40
    assert len([text for text in writer.told if writer.count_tokens(text) > 1500]) == 1


async def test_a_model_that_finds_everything_too_long_is_not_asked_for_ever() -> None:
    for takes, room in ((0, 10_000), (0, 1_000_000), (450, 100_000)):
        writer = Scripted(max_input_tokens=room, takes=takes)
        with pytest.raises(NoSummary, match="too long"):
            await summed_up(writer, talk(2000))
        assert len(writer.told) <= MAX_CALLS


async def test_what_would_take_too_many_pieces_is_told_without_its_middle() -> None:
    writer = Scripted(max_input_tokens=600)
    summary = await summed_up(writer, talk(2000))
    assert len(writer.told) == 1
    assert "FACT-0 " in summary.text
    assert summary.text.endswith("FACT-1999")


async def test_no_summary_takes_calls_without_end() -> None:
    """Every piece must be asked for twice, round after round."""
    asked = iter(range(10_000))
    writer = Scripted(
        max_input_tokens=1200, reply=lambda text: "" if next(asked) % 2 == 0 else text[: len(text) * 4 // 5]
    )
    with pytest.raises(NoSummary, match=f"in {MAX_CALLS} model calls"):
        await summed_up(writer, talk(250))
    assert len(writer.told) == MAX_CALLS


async def test_pieces_that_do_not_get_shorter_give_way_to_the_last_rung() -> None:
    writer = Scripted(max_input_tokens=1000, reply=lambda text: text[: len(text) - 200])
    summary = await summed_up(writer, talk(20))
    assert "left out" in writer.told[-1]
    assert "FACT-0 " in summary.text
