"""The estimate is near to the count, whatever the text."""

from __future__ import annotations

import random
import statistics
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.context.tokens.encodings import encoder
from agent_runtime.context.tokens.estimate import MIN_TOKENS, SAMPLE_BYTES, estimate, estimate_json, estimate_text
from agent_runtime.context.tokens.message_overhead import message_tokens
from tests.unit.context.tokens.corpus import CODE, DOCUMENTS, PROSE, SCHEMAS, answered, called, message, results

RNG = random.Random(5)
KINDS = {
    **{language: [text * 4] for language, text in PROSE.items()},
    **{f"code {number}": [text] for number, text in enumerate(CODE)},
    "documents": list(DOCUMENTS),
    "schemas": list(SCHEMAS),
    "results": [text for _ in range(10) for text in results(RNG)],
}


def off(one: bytes) -> float:
    """How far the estimate is from the count, as a part of it."""
    return estimate(one) / message_tokens(one, encoder("o200k_base").count) - 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_text_is_met_within_a_quarter(kind: str) -> None:
    for text in KINDS[kind]:
        for one in (message("user", text), answered({"stdout": text}), called("write", {"content": text})):
            assert abs(off(one)) < 0.26


def test_most_texts_are_met_within_a_tenth() -> None:
    texts = [text for kind in KINDS.values() for text in kind]
    far = [abs(off(one)) for text in texts for one in (message("user", text), answered({"stdout": text}))]
    assert statistics.mean(far) < 0.1
    assert statistics.median(far) < 0.08


def test_a_text_costs_what_it_costs_in_a_message() -> None:
    for text in (*CODE, *PROSE.values()):
        assert estimate_text(text) == pytest.approx(estimate(message("user", text)), rel=0.05, abs=8)
    assert estimate_text("") == 0
    assert estimate_text("half \ud83d a pair") > 3


def test_a_long_message_is_sampled() -> None:
    for text in (*CODE, *DOCUMENTS):
        long = text * (40 * SAMPLE_BYTES // len(text))
        assert abs(off(message("user", long))) < 0.2
        assert estimate_text(long) == pytest.approx(estimate(message("user", long)), rel=0.05)
    began = time.process_time()
    estimate(message("user", "word " * 2_000_000))
    assert time.process_time() - began < 0.5


def test_of_a_list_of_tools_all_counts() -> None:
    for schema in SCHEMAS:
        assert estimate_json(schema.encode()) == pytest.approx(encoder("o200k_base").count(schema), rel=0.25)


@given(st.binary(max_size=2000))
def test_any_bytes_have_an_estimate(data: bytes) -> None:
    assert MIN_TOKENS <= estimate(data) <= MIN_TOKENS + 3 * len(data)


@given(st.text(max_size=2000))
def test_any_text_has_an_estimate(text: str) -> None:
    assert 0 <= estimate_text(text) <= 12 * len(text)
