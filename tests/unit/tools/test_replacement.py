"""`edit` finds a text that the file writes a little differently, and leaves the file its own forms."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Callable

import pytest

from agent_runtime.errors import ToolFailure
from agent_runtime.tools.files.replacement import MAX_TOLERANT, replace_text
from agent_runtime.tools.files.text_forms import MAX_CLUSTER, clusters_of


def edit(data: str | bytes, old: str, new: str, *, every: bool = False) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return replace_text(raw, old, new, every=every, shown="it.txt").data.decode(errors="surrogateescape")


def refusal(data: str, old: str, *, every: bool = False) -> str:
    with pytest.raises(ToolFailure) as refused:
        edit(data, old, "new", every=every)
    return refused.value.message


LINE_ENDS = {
    "CR LF, several lines": ("a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n"),
    "CR LF, one line for two": ("a\r\nb\r\n", "a", "x\ny", "x\r\ny\r\nb\r\n"),
    "CR LF, the last line": ("a\r\nb", "b", "x\ny", "a\r\nx\r\ny"),
    "CR LF, given so": ("a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"),
    "CR LF, new text in LF": ("a\r\nb\r\n", "a\r\nb", "x\ny\nz", "x\r\ny\r\nz\r\n"),
    "CR LF with an end at both sides": ("a\r\nb\r\nc", "\nb\n", "\nx\n", "a\r\nx\r\nc"),
    "LF, given in CR LF": ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
    "LF": ("a\nb\n", "a\nb", "x\ny", "x\ny\n"),
    "CR alone": ("a\rb\rc", "a\nb", "x\ny", "x\ry\rc"),
    "mixed, in the CR LF part": ("a\nb\nc\r\nd\r\n", "c", "x\ny", "a\nb\nx\r\ny\r\nd\r\n"),
    "mixed, in the LF part": ("a\nb\nc\r\nd\r\n", "a", "x\ny", "x\ny\nb\nc\r\nd\r\n"),
    "the line ends themselves": ("a\nb\n", "a\nb", "a\r\nb", "a\r\nb\n"),
    "no line end at all": ("a", "a", "x\ny", "x\ny"),
}


@pytest.mark.parametrize(("data", "old", "new", "expected"), LINE_ENDS.values(), ids=LINE_ENDS.keys())
def test_the_file_keeps_its_line_ends(data: str, old: str, new: str, expected: str) -> None:
    assert edit(data, old, new) == expected


FORMS = {
    "double quotes": ("say \u201chello\u201d now", 'say "hello"', 'say "goodbye"', "say \u201cgoodbye\u201d now"),
    "single quotes": ("it\u2019s here", "it's here", "it's there", "it\u2019s there"),
    "no-break space": ("10\u00a0km away", "10 km", "20 km", "20\u00a0km away"),
    "narrow no-break space": ("10\u202fkm", "10 km", "12 km", "12\u202fkm"),
    "decomposed": ("cafe\u0301 noir", "caf\u00e9 noir", "caf\u00e9 blanc", "cafe\u0301 blanc"),
    "composed": ("caf\u00e9 noir", "cafe\u0301 noir", "cafe\u0301 blanc", "caf\u00e9 blanc"),
    "Hangul": ("\u1112\u1161\u11ab one", "\ud55c one", "\ud55c two", "\u1112\u1161\u11ab two"),
    "Hangul in letters": (
        "\ud55c\uae00 a",
        "\u1112\u1161\u11ab\u1100\u1173\u11af a",
        "\ud55c\uae00 b",
        "\ud55c\uae00 b",
    ),
    "a sign that is composed to another": ("5 \u2126 here", "5 \u03a9 here", "6 \u03a9 here", "6 \u2126 here"),
    "a sign that is never composed": ("\u0958 a", "\u0915\u093c a", "\u0915\u093c b", "\u0958 b"),
    "a semicolon of Greek": ("a\u037e b", "a; b", "a; c", "a\u037e c"),
    "other apostrophes": ("it\u02bcs, it\u00b4s", "it's, it's", "it's; it's", "it\u02bcs; it\u00b4s"),
    "dashes": ("1\u20132 and 3", "1-2 and 3", "1-2 and 4", "1\u20132 and 4"),
    "an ellipsis": ("wait\u2026 now", "wait... now", "wait... then", "wait\u2026 then"),
    "a part of an ellipsis": ("Loading\u2026", "Loading...", "Loading.", "Loading."),
    "more than an ellipsis": ("Loading\u2026", "Loading...", "Loading....", "Loading\u2026."),
    "a letter without its mark": ("caf\u00e9", "cafe\u0301", "cafe", "cafe"),
    "a letter with another mark": ("caf\u00e9", "cafe\u0301", "cafe\u0302", "cafe\u0302"),
    "straight in the file": ('say "hello"', "say \u201chello\u201d", "say \u201cgoodbye\u201d", 'say "goodbye"'),
    "quotes and line ends": ("\u201ca\u201d\r\nb\r\n", '"a"\nb', '"a"\nc\nd', "\u201ca\u201d\r\nc\r\nd\r\n"),
    "several at once": ("\u201cit\u2019s\u00a0cafe\u0301\u201d", '"it\'s caf\u00e9"', '"it\'s a caf\u00e9"', None),
}


QUOTES = {
    "one becomes two": ("\u201ca\u201d", '"a"', '"b" and "c"', "\u201cb\u201d and \u201cc\u201d"),
    "in a sentence": (
        "say \u201cone\u201d to me",
        'say "one"',
        'say "two" or "one"',
        "say \u201ctwo\u201d or \u201cone\u201d to me",
    ),
    "behind a comma": (
        "\u201cStop\u201d, she said",
        '"Stop"',
        '"Please stop," "now"',
        "\u201cPlease stop,\u201d \u201cnow\u201d, she said",
    ),
    "in brackets": (
        "print(\u201chi\u201d)",
        'print("hi")',
        'print("hi", "there")',
        "print(\u201chi\u201d, \u201cthere\u201d)",
    ),
    "one in another": (
        "\u201c\u2018a\u2019 b\u201d",
        "\"'a' b\"",
        "\"'c' 'a' b\"",
        "\u201c\u2018c\u2019 \u2018a\u2019 b\u201d",
    ),
    "German": ("\u201ea\u201c ist", '"a" ist', '"b" oder "c" ist', "\u201eb\u201c oder \u201ec\u201c ist"),
    "Swedish": (
        "\u201da\u201d \u00e4r",
        '"a" \u00e4r',
        '"b" och "c" \u00e4r',
        "\u201db\u201d och \u201dc\u201d \u00e4r",
    ),
    "the end of one": (
        "\u201chello there\u201d",
        'there"',
        'there" and "bye"',
        "\u201chello there\u201d and \u201cbye\u201d",
    ),
    "the begin of one": (
        "\u2018hello there\u2019",
        "'hello",
        "'bye' and 'hello",
        "\u2018bye\u2019 and \u2018hello there\u2019",
    ),
    "over the end of a line": (
        "\u201cStop\u201d now",
        '"Stop" now',
        '"Please\nstop" now',
        "\u201cPlease\nstop\u201d now",
    ),
    "apostrophes": ("it\u2019s here", "it's here", "it's here, isn't it", "it\u2019s here, isn\u2019t it"),
    "an apostrophe and quotes": ("it\u2019s a", "it's a", "it's 'a'", "it\u2019s 'a'"),
    "an apostrophe behind a word": ("dogs\u2019 tails", "dogs' tails", "'dogs' tails", "'dogs\u2019 tails"),
    "code below a comment": (
        "# the \u201ca\u201d flag\nrun()",
        '# the "a" flag\nrun()',
        '# the "a" flag\nrun("x")',
        '# the \u201ca\u201d flag\nrun("x")',
    ),
    "in both forms": ('\u201ca\u201d or "b"', '"a" or "b"', '"a" or "b" or "c"', '\u201ca\u201d or "b" or "c"'),
    "straight in the file": (
        'say "a" to me',
        "say \u201ca\u201d",
        "say \u201cb\u201d or \u201cc\u201d",
        'say "b" or "c" to me',
    ),
    "curly in the new text alone": ('it\u2019s "a"', 'it\'s "a"', "it's \u201cb\u201d", "it\u2019s \u201cb\u201d"),
}


@pytest.mark.parametrize(("data", "old", "new", "expected"), QUOTES.values(), ids=QUOTES.keys())
def test_a_quote_that_opens_is_another_one_than_one_that_closes(data: str, old: str, new: str, expected: str) -> None:
    assert edit(data, old, new) == expected


@pytest.mark.parametrize(("data", "old", "new", "expected"), FORMS.values(), ids=FORMS.keys())
def test_the_file_keeps_its_form_of_what_is_repeated(data: str, old: str, new: str, expected: str | None) -> None:
    assert edit(data, old, new) == (expected or "\u201cit\u2019s\u00a0a cafe\u0301\u201d")


def test_an_exact_match_comes_first() -> None:
    assert edit('\u201ca\u201d "a"', '"a"', '"b"') == '\u201ca\u201d "b"'


def test_bytes_that_are_no_utf_8_stay() -> None:
    data = b"\xe9\xff \xe2\x80\x9chi\xe2\x80\x9d\r\n\xe9"
    assert edit(data, '"hi"\n', '"ho"\n').encode(errors="surrogateescape") == data.replace(b"hi", b"ho")


def test_several_places_are_all_replaced_or_named() -> None:
    data = "\u2018a\u2019\r\nb\r\n\u2018a\u2019\r\n"
    assert "occurs 2 times in it.txt, on lines 1, 3" in refusal(data, "'a'\n")
    assert edit(data, "'a'\n", "'c'\n", every=True) == data.replace("a", "c")


def test_no_text_holds_up_the_server() -> None:
    """Marks are sorted in the square of their number; a text that begins everywhere is compared everywhere."""
    marks = "\u0301\u0323" * 9_000
    assert max(map(len, clusters_of(f"a{marks}"))) == MAX_CLUSTER
    assert "is not in" in refusal("b" * 1000, f"a{marks}")
    blanks = "\u00a0" * 15_000
    assert "is not in" in refusal(blanks, " " * 1_990), "it would be found after half a second"
    assert edit(blanks + "x", " " * 100 + "x", "y").endswith("\u00a0y"), "most texts are short"
    long = "'" + "word " * 300
    assert edit(f"{blanks}\u2019{long[1:]}", long, "y") == f"{blanks}y", "or begin in few places"


DIFFERENCES = {
    "another letter": ("the quick brown fox", "the quick browm fox", ["line 1", "'n' (U+006E", "'m' (U+006D"]),
    "on a later line": ("first line\nsecond line\n", "first line\nsecond time\n", ["line 2", "'l'", "'t'"]),
    "a homoglyph": ("access = p\u0430ssword", "access = password", ["U+0430 cyrillic small letter a", "U+0061"]),
    "the end of the file": ("the quick brown", "the quick brown fox", ["its end"]),
    "a tab": ("def a():\n\tpass", "def a():\n    pass", ["'\\t' (U+0009", "' ' (U+0020 space)"]),
    "a tab for blanks at the begin": (
        "a\n\treturn value",
        "    return value",
        ["5 on", "line 2", "'\\t' (U+0009", "' ' (U"],
    ),
    "an unseen sign": ("im\u200bport os.path", "import os.path", ["3 on", "U+200B zero width space", "'m'"]),
    "a sign before the file": ("return value", "`return value`", ["2 on", "line 1", "its beginning", "U+0060"]),
    "tabs for blanks on short lines": (
        "a\n\tif x:\n\t\treturn 1",
        "    if x:\n        return 1",
        ["5 on", "line 2", "'\\t' (U+0009", "' ' (U"],
    ),
    "the same indentation in many places": (
        "        first\n" * 20 + "        value = 1",
        "        value = 2",
        ["first 16 ", "line 21", "'1' (U+0031", "'2' (U"],
    ),
    "blanks inside that are in many places": (
        "        first\n\tif x:\n\t\treturn 1",
        "\tif x:\n        return 1",
        ["first 7 ", "line 3", "'\\t' (U+0009", "' ' (U"],
    ),
    "the first character in another width": ("a\uff0c b", ", b", ["first 0 ", "U+FF0C fullwidth comma", "U+002C"]),
    "tabs for blanks in a line": (
        "x = 2\n" * 20 + "x\t=\t1",
        "x = 1",
        ["first 1 ", "line 21", "'\\t' (U+0009", "' ' (U"],
    ),
    "blanks at the end of a line": ("foo  \nbar", "foo\nbar", ["first 3 ", "line 1", "' ' (U", "'\\n' (U+000A"]),
    "blanks that a formatter puts": ("if (x) {\n}", "if(x){\n}", ["first 2 ", "line 1", "' ' (U", "'(' (U"]),
    "full width": ("if a\uff1ab", "if a:b", ["first 4 ", "line 1", "U+FF1A fullwidth colon", "':' (U+003A"]),
    "another letter before a short end": ("a = f(b, 1)", "a = g(b, 1)", ["6 on", "line 1", "'f' (U+0066", "'g' (U"]),
    "another letter after a short begin": ("a = f(b)", "a = g(c)", ["first 4 ", "line 1", "'f' (U+0066", "'g' (U"]),
    "an unseen sign in a short text": ("im\u200bport os", "import os", ["3 on", "U+200B zero width space", "'m'"]),
    "short beginnings in many places": ("a = f(b)\n" * 20, "a = g()", ["it.txt; read it and copy the exact text"]),
    "blanks alone": ("a b", "\t\t\n", ["it.txt; read it and copy the exact text"]),
    "nothing alike": ("abc", "xyz and so on", ["read it and copy the exact text"]),
}


@pytest.mark.parametrize(("data", "old", "words"), DIFFERENCES.values(), ids=DIFFERENCES.keys())
def test_where_a_text_differs_is_named(data: str, old: str, words: list[str]) -> None:
    told = refusal(data, old)
    assert told.startswith("old_string: is not in it.txt; ")
    assert all(word in told for word in words), told


def test_the_cost_of_naming_a_difference_is_bounded() -> None:
    for data, old in (
        ("a" * 500_000, "a" * 10_000 + "b"),
        (("a" + "\t" * 80) * 40_000, "a" * 70 + "b"),  # each of them is compared with all blanks after it
    ):
        began = time.process_time()
        assert "is not in" in refusal(data, old)
        assert time.process_time() - began < 1.5


def test_the_cost_of_a_long_text_is_bounded() -> None:
    data = "\u2019" + "ab " * 100_000 + "\r\n"
    assert "is not in" in refusal(data, "'" + "ab " * MAX_TOLERANT)
    assert edit(data, "ab " * MAX_TOLERANT * 4 + "ab", "x\ny").startswith("\u2019x\r\ny")


MANY = 200_000


def peak(work: Callable[[], object]) -> tuple[float, int]:
    """Return the seconds of CPU that the work takes, and the bytes of its own at its most."""
    tracemalloc.start()
    begun = time.process_time()
    try:
        work()
        return time.process_time() - begun, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("data", "old", "new"),
    [("a" * MANY, "a", "b"), ("a," * MANY, ",", ",\n"), ("a\r\n" * MANY, "a\n", "b\nc\n")],
    ids=["one long line", "one line becomes many", "other line ends"],
)
def test_a_text_that_is_everywhere_is_replaced_in_one_pass(data: str, old: str, new: str) -> None:
    seconds, most = peak(lambda: edit(data, old, new, every=True))
    assert seconds < 2
    assert most < 20 * len(data)


def test_places_in_several_forms_are_replaced_one_by_one_up_to_a_bound() -> None:
    both = "'\n\u2019\r\n\u2018"
    begun = time.process_time()
    assert edit(f"{both}\r\n" * 20_000, "\u201b", "x\ny", every=True).startswith("x\ny\nx\r\ny\r\nx\r\ny\r\n")
    assert time.process_time() - begun < 4
    assert "more than 100000 times" in refusal("\u2019" * 100_001, "'", every=True)


def test_forms_that_cost_too_much_to_compare_are_refused() -> None:
    forms = ["".join(form) for form in itertools.product("\u2018\u2019\u201a\u201b\u2032", repeat=5)]
    begun = time.process_time()
    with pytest.raises(ToolFailure, match="too many forms"):
        edit(" ".join(forms), "'" * 5, "b" * 3_900, every=True)
    assert time.process_time() - begun < 5


def test_a_text_that_is_everywhere_is_refused_without_a_list_of_its_places() -> None:
    seconds, most = peak(lambda: refusal("a" * MANY, "a"))
    assert seconds < 1
    assert most < 3 * MANY
    assert f"occurs {MANY} times in it.txt, on lines 1, 1, 1, 1, 1, 1, 1, 1, ...;" in refusal("a" * MANY, "a")
    assert "occurs more than 1000 times" in refusal("\u2019" * 2_000, "'")


def test_a_result_that_is_too_large_is_not_made() -> None:
    seconds, most = peak(lambda: refusal_of_size("a" * MANY, "a", "b" * 10_000))
    assert seconds < 2
    assert most < 20 * MANY


def refusal_of_size(data: str, old: str, new: str) -> None:
    with pytest.raises(ToolFailure, match="after the edit is"):
        edit(data, old, new, every=True)
