"""What texts are found by, in the scripts of the world."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_runtime.memory.search.query import MAX_QUERY_LENGTH, MAX_TERMS, parse_query
from agent_runtime.memory.text.normalize import fold
from agent_runtime.memory.text.terms import MAX_WORD_LENGTH, STEM_LENGTH, extract_terms

texts = st.text(max_size=300)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Straße", "STRASSE"),
        ("résumé", "Re\u0301sume\u0301"),
        ("İSTANBUL", "istanbul"),
        ("Ёлка", "елка"),
        ("ἄνθρωπος", "ανθρωποσ"),
        ("مَدْرَسَة", "مدرسه"),
        ("שָׁלוֹם", "שלום"),
        ("\uff46\uff55\uff4c\uff4c\u3000\uff37", "full w"),
        ("ｻｰﾊﾞｰ", "さーばー"),
        ("٣٤", "34"),
        ("Łódź Ærø", "lodz aero"),
        ("soft\u00adhyphen\u200b", "softhyphen"),
    ],
)
def test_what_reads_the_same_is_the_same(one: str, other: str) -> None:
    assert fold(one) == fold(other)


@pytest.mark.parametrize(
    ("one", "other"), [("йод", "иод"), ("हिन्दी", "हनद"), ("ไทย", "ไทร"), ("각", "가"), ("がく", "かく")]
)
def test_marks_that_make_other_letters_stay(one: str, other: str) -> None:
    assert fold(one) != fold(other)


@given(st.characters())
def test_folding_twice_is_folding_once(char: str) -> None:
    assert fold(fold(char)) == fold(char)


@given(texts)
def test_any_text_has_terms_that_the_index_takes_as_they_are(text: str) -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute(
        "CREATE VIRTUAL TABLE found USING fts5 (terms, content='', detail='none', columnsize=0, tokenize='ascii')"
    )
    mine = {f"7{term}" for term in extract_terms(text)}
    connection.execute("INSERT INTO found (rowid, terms) VALUES (1, ?)", (" ".join(sorted(mine)),))
    connection.execute("CREATE VIRTUAL TABLE there USING fts5vocab (found, 'row')")
    assert {row[0] for row in connection.execute("SELECT term FROM there")} == mine
    connection.close()


@given(st.text(min_size=1, max_size=6 * MAX_QUERY_LENGTH))
@example("000000\U00016e40")
def test_a_query_of_any_length_asks_for_so_much_and_no_more(text: str) -> None:
    asked = parse_query(text)
    assert len(asked) <= MAX_TERMS
    assert len({one.term for one in asked}) == len(asked)
    assert all(one.weight > 0 for one in asked)
    stems = {f"{kind}{one.word[:STEM_LENGTH]}" for one in asked for kind in "wp"}
    parts_of_names = {f"w{one.word}" for one in asked}
    assert {one.term for one in parse_query(text[:200])} <= extract_terms(text[:200]) | stems | parts_of_names


def test_words_without_end_are_cut() -> None:
    assert max(map(len, extract_terms("x" * 100_000))) == MAX_WORD_LENGTH + 1
    assert len(extract_terms("x" * 100_000)) < 10
    assert len(extract_terms("한" * 100_000)) < 10


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("我的狗叫豆豆", "b豆豆"),
        ("私の猫", "c猫"),
        ("サーバーが止まった", "bさー"),
        ("친구를 만났다", "h친구"),
        ("ภาษาไทย", "tไทย"),
        ("हिन्दी में", "wहिन्दी"),
        ("der Zahnarzttermin", "garzt"),
        ("release 2.13", "w13"),
        ("Müller", "wmueller"),
        ("Müller", "xmüller"),
        ("walks", "g0wal"),
        ("🐶 barks", "e🐶"),
        ("بالبيت", "wبيت"),
    ],
)
def test_each_script_is_taken_apart_in_its_own_way(text: str, term: str) -> None:
    assert term in extract_terms(text)


@pytest.mark.parametrize(
    ("query", "word", "weak"),
    [
        ("where is the hat", "hat", False),
        ("was hat der Hund", "hat", True),
        ("what was the war about", "war", False),
        ("wer war das", "war", True),
        ("who", "who", True),
    ],
)
def test_common_words_are_those_of_the_language_that_is_spoken(query: str, word: str, weak: bool) -> None:
    (one,) = [one for one in parse_query(query) if one.term == f"w{word}"]
    assert one.significant is not weak
    assert (one.weight < 0.5) is weak
