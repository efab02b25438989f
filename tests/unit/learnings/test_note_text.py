"""What a note's text may be: one line, visible, without secrets, and the same when it means the same."""

from __future__ import annotations

import base64
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_common.line_text import comparable_text, note_key, one_line, truncate_middle
from agent_common.redaction import NOTE_MARK, Redactor


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("  a\n\n b\tc \r\n", r"a\nb c"),
        ("red \x1b[31malert\x07", r"red \x1b[31malert\x07"),
        ("left\u202eright", r"left\u202eright"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("hidden\ufe01\U000e0101", r"hidden\ufe01\U000e0101"),
        ("heart \u2764\ufe0f", "heart \u2764\ufe0f"),
        ("\u0645\u06cc\u200c\u0631\u0648\u0645", "\u0645\u06cc\u200c\u0631\u0648\u0645"),
        ("half \ud800", r"half \ud800"),
        ("wide\u3000space", "wide space"),
    ],
)  # fmt: skip
def test_a_text_becomes_one_line_in_which_nothing_hides(text: str, line: str) -> None:
    assert one_line(text, 100) == line


@settings(deadline=None)
@given(st.text(), st.integers(20, 200))
def test_a_line_is_short_visible_and_stays_as_it_is(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert "\n" not in line
    assert line.encode().decode() == line
    assert one_line(line, limit) == line


def test_the_end_of_a_long_text_is_kept() -> None:
    line = one_line("Traceback\n" + "  File x\n" * 500 + "ValueError: no such colour", 120)
    assert line.startswith("Traceback")
    assert line.endswith("ValueError: no such colour")
    assert truncate_middle("a" * 10_000_000 + "end").endswith("end")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("read: line 12 is beyond the end (8 lines)", "read: line 7 is beyond the end (912 lines)"),
        ("notes/a.md does not exist", "src/deep/b.py does not exist"),
        ("no file (a.md), look for it", "no file (b-2.py), look for it"),
        ("there is no package 'pdf'", "there is no package 'docx'"),
        ("object at 0x7f3a2b1c is gone", "object at 0x11aa22bb is gone"),
        ("session ses_01abc23def45 is archived", "session ses_99zzz88yyy77 is archived"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-0000-4000-8000-000000000000"),
        ("It  did NOT\nfinish", "it did not finish"),
    ],
)
def test_what_differs_in_numbers_paths_quotes_and_ids_is_the_same(one: str, other: str) -> None:
    assert comparable_text(one) == comparable_text(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("path: is required", "pattern: is required"), ("it did not finish", "it did not start"), ("don't a", "don't b")],
)
def test_what_means_something_else_is_not(one: str, other: str) -> None:
    assert comparable_text(one) != comparable_text(other)


def test_keys_do_not_run_into_each_other() -> None:
    assert note_key("e", "ab", "c") != note_key("e", "a", "bc")
    assert note_key("e", "a") == note_key("e", "a") != note_key("c", "a")


RANDOM = random.Random(1)
TOKEN = base64.b64encode(RANDOM.randbytes(48)).decode().replace("/", "A").replace("+", "b")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("401: Authorization: Bearer abc.def-ghi", "abc.def-ghi"),
        ("curl https://ada:hunter2@example.org/x", "hunter2"),
        ("OPENAI_API_KEY=short run it", "short"),
        ('{"api_key": "k 1"}', "k 1"),
        ("password: hunter2000", "hunter2000"),
        ("invalid key sk-proj-abcdefghijklmnop", "abcdefghijklmnop"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "qrstuv"),
        ("AKIAIOSFODNN7EXAMPLE is not known", "IOSFODNN"),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-def", "eyJzdWIi"),
        (f"got {TOKEN} back", TOKEN),
        ("digest d41d8cd98f00b204e9800998ecf8427e", "d41d8cd9"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("the server's own: sesame-open", "sesame-open"),
    ],
)
def test_secrets_are_taken_out(text: str, secret: str) -> None:
    clean = Redactor(("sesame-open", "tiny")).redact_note(text)
    assert secret not in clean
    assert NOTE_MARK in clean


@pytest.mark.parametrize(
    "text",
    [
        "token: is required",
        "password: must be of type string, not 12",
        "/usr/lib/python3/dist-packages/some_long_package_name/module_one.py does not exist",
        "a-very-long-name-of-a-branch-that-somebody-has-made-for-issue-12 is not there",
        "there are: read, write, edit, glob, grep, bash, web_fetch, web_search",
        "tiny",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor(("sesame-open", "tiny")).redact_note(text) == text


@pytest.mark.parametrize(
    "piece", ["a-", "token", "token=", "eyJ", "eyJ-", "://a:", "'", "0x", "a1_", "-----BEGIN ", " ", "\u202e"]
)
def test_no_text_takes_long(piece: str) -> None:
    started = time.process_time()
    text = truncate_middle(piece * 5000)
    comparable_text(Redactor().redact_note(text))
    one_line(text, 300)
    assert time.process_time() - started < 2
