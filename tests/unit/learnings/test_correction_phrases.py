"""Which messages are taken for corrections. Precise rather than broad: each of these lines is a promise."""

# ruff: noqa: RUF001  it is about such letters
from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_runtime.learnings import is_correction
from agent_runtime.learnings.correction_phrases import languages

CORPUS = Path(__file__).parents[2] / "corpora" / "memory"
DONE = "I have run npm install and all is well."
ASKED = "Shall I run npm install as well?"


@pytest.mark.parametrize(
    "said",
    [
        "No, use pnpm.", "no - the other file", "That’s wrong",
        "  *Actually*, make it blue",
        "Actually, make it blue", "WRONG. It is 42", "From now on answer in French", "I said pnpm!",
        "Nein, nimm pnpm", "Das stimmt nicht", "Ab jetzt bitte auf Deutsch",
        "Non, utilise pnpm", "C'est faux", "¡No! usa pnpm", "Eso no es lo que pedí", "Te equivocas",
        "Não, usa o pnpm", "Isso está errado", "No, usa pnpm", "È sbagliato", "D'ora in poi in italiano",
        "Nee, gebruik pnpm", "Dat klopt niet", "Vanaf nu in het Nederlands", "Nie, użyj pnpm", "To źle",
        "Нет, используй pnpm", "Это неправильно", "Ты ошиблась", "Hayır, pnpm kullan", "Bu yanlış",
        "不对，应该用 pnpm", "不對!", "错了，是蓝色", "你弄错了", "不，用 pnpm 吧", "从现在起用中文",
        "違います、青です", "違う。青", "いいえ、pnpm を使って", "そうじゃなくて青", "아니요, pnpm을 써요", "틀렸어요",
    ],
)  # fmt: skip
def test_these_correct(said: str) -> None:
    assert is_correction(said, DONE)


@pytest.mark.parametrize(
    "said",
    [
        "", "no", "No.", "No, thanks!", "No, thank you very much", "No problem", "Nothing else", "Now do the rest",
        "no, that's all for today", "No, why?", "Actually, can you also make it blue?", "Wrongly named files?",
        "I saidit", "Notice the colour", "Nobody knows", "Please fix it", "yes, go on",
        "Nein danke", "Nein, danke dir", "Neinsager", "Falschgeld ist verboten", "Non merci beaucoup", "Non, merci",
        "no, gracias", "Não, obrigada", "No, grazie mille", "Nee, bedankt!", "Нет, спасибо",
        "Неправильно настроен сервер, помоги", "不对称加密怎么用", "不用了", "不，谢谢你", "不客气",
        "違う方法はありますか", "間違いないです", "いいえ、結構です", "아니, 괜찮아요",
        "Hayır, teşekkürler", "Nie, dziękuję bardzo",
    ],
)  # fmt: skip
def test_these_do_not(said: str) -> None:
    assert not is_correction(said, DONE)


@pytest.mark.parametrize("said", ["No, use pnpm", "Nein, nimm pnpm", "いいえ、pnpm を使って", "Actually, use pnpm"])
def test_a_no_to_a_question_is_an_answer(said: str) -> None:
    assert not is_correction(said, ASKED)
    assert not is_correction(said, "Soll ich weitermachen? Sag Bescheid.")
    assert is_correction(said, "Did you know? " + "x" * 500)
    assert is_correction("That's wrong, use pnpm", ASKED)


def test_every_language_has_all_kinds() -> None:
    assert {"en", "de", "fr", "es", "pt", "it", "nl", "ru", "zh", "ja"} <= languages().keys()
    for kinds in languages().values():
        assert kinds.keys() == {"wrong", "no", "not"}
        assert all(phrase.strip() for phrases in kinds.values() for phrase in phrases)


def test_every_phrase_that_is_listed_counts() -> None:
    for kinds in languages().values():
        for phrase in (*kinds["wrong"], *kinds["no"]):
            assert is_correction(f"{phrase.rstrip('~')} pnpm pnpm", DONE), phrase
        for phrase in kinds["not"]:
            assert not is_correction(f"{phrase.rstrip('~')} pnpm pnpm", DONE), phrase


def test_questions_and_stories_of_the_corpus_are_no_corrections() -> None:
    """The figure on docs/reference/learnings.md."""
    files = (CORPUS / "questions.jsonl", CORPUS / "questions_heldout.jsonl")
    texts = [json.loads(line)["text"] for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(texts) == 572
    assert [text for text in texts if is_correction(text, DONE)] == []


@settings(deadline=None)
@given(st.text(), st.text())
def test_any_text_can_be_asked_about(said: str, answered: str) -> None:
    assert is_correction(said, answered) in (True, False)
