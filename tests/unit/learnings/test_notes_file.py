"""The files: what is written is read back, what people write stays, and no flood pushes out what others have noted."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_common.line_text import note_key, one_line
from agent_runtime.learnings.notes_file import FIELDS, MAX_FILE_BYTES, NoteEntry, NotesFile, code_span, strip_code_span

EDITED = """\
# Corrections

My own words above all else.

- Always answer in Dutch
* and be brief

## c-0123456789

- from: person (message)
- times: many
- last: yesterday
- text: `use pnpm,
  not npm`
- note: I know

Keep this remark.

- and this item

## Notes of mine

```
## not a heading of ours
```

## Tabs

- text: indent with tabs
"""

texts = st.text(min_size=1).map(lambda text: one_line(text, 300)).filter(bool)
words = st.text("abc`'\"<>&# -*:", min_size=1, max_size=20).map(str.strip).filter(bool)
names = st.sampled_from([name for name in FIELDS if name != "text"])


@st.composite
def entries(draw: st.DrawFn) -> NoteEntry:
    fields = {name: code_span(draw(st.one_of(texts, words))) for name in draw(st.lists(names, unique=True))}
    return NoteEntry(
        note_key("e", draw(st.text(max_size=5))), {**fields, "text": code_span(draw(st.one_of(texts, words)))}
    )


@settings(deadline=None)
@given(st.lists(entries(), unique_by=lambda entry: entry.title))
def test_what_is_written_is_read_back(written: list[NoteEntry]) -> None:
    book = NotesFile.parse("# Errors\n\nIntroduction.\n")
    book.add(written)
    read = NotesFile.parse(book.render())
    assert read.entries == written
    assert NotesFile.parse(read.render()) == read


@settings(deadline=None)
@given(st.one_of(texts, words))
def test_a_text_is_quoted_and_unquoted(text: str) -> None:
    assert strip_code_span(code_span(text)) == text


lines = st.one_of(
    *(
        st.just(line)
        for line in ("## c-0123456789", "## mine", "# a", "- text: x", "- times: 2", "  more", "", "- item")
    ),
    st.text(max_size=10),
)


@settings(deadline=None)
@given(st.lists(lines).map("\n".join))
def test_any_text_keeps_every_line_of_a_person_in_its_order(text: str) -> None:
    book = NotesFile.parse(text)
    theirs = [
        line for part in book.parts for line in (part.extra if isinstance(part, NoteEntry) else part) if line.strip()
    ]
    book.add([NoteEntry(note_key("e", "new"), {"text": "new"})])
    written = iter(book.render().split("\n"))
    assert all(any(line == other for other in written) for line in theirs)
    told = {line.strip() for line in book.render().split("\n")}
    if not book.entries[:-1]:
        assert {line.strip() for line in text.split("\n")} <= told
    again = NotesFile.parse(book.render())
    assert NotesFile.parse(again.render()) == again


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_stay_as_they_are(data: bytes) -> None:
    book = NotesFile.parse(data.decode(errors="surrogateescape"))
    if not book.entries:
        assert book.render().encode(errors="surrogateescape").rstrip(b"\n") == data.rstrip(b"\n")


def test_what_people_have_changed_stays() -> None:
    book = NotesFile.parse(EDITED)
    first, tabs = book.entries
    assert (first.title, first.times, first.last, first.get("text")) == ("c-0123456789", 1, "", "use pnpm, not npm")
    assert (tabs.title, tabs.by_hand, tabs.get("text")) == ("Tabs", True, "indent with tabs")
    assert book.items() == ["Always answer in Dutch", "and be brief", "note: I know", "and this item"]
    book.add([NoteEntry("c-0123456789", {"times": "1", "last": "2026-11-05 10:00", "text": "`Use PNPM, not npm`"})])
    text = book.render()
    for line in EDITED.split("\n"):
        assert line in text or line in ("- times: many", "- last: yesterday", "- text: `use pnpm,", "  not npm`")
    assert "- times: 2\n- last: 2026-11-05 10:00\n- text: `use pnpm, not npm`\n" in text
    assert "Use PNPM" not in text


def test_lines_that_end_as_elsewhere_are_read_all_the_same() -> None:
    (entry,) = NotesFile.parse(EDITED.replace("\n", "\r\n")).entries[:1]
    assert (entry.title, entry.get("text")) == ("c-0123456789", "use pnpm, not npm")


@pytest.mark.parametrize(("count", "times"), [("0", 1), ("-3", 1), ("7", 7), ("\u0663", 1), ("9" * 5000, 1), ("", 1)])
def test_a_count_is_a_number_or_one(count: str, times: int) -> None:
    assert NoteEntry("x", {"times": count, "text": "x"}).times == times


def note(title: str, last: str, **fields: str) -> NoteEntry:
    return NoteEntry(note_key("c", title), {**fields, "last": last, "text": title})


def test_the_oldest_are_dropped_first_of_those_that_there_are_most_of() -> None:
    book = NotesFile.parse(EDITED)
    people = [note(f"p{n}", f"2026-01-{n + 1:02}", **{"from": "person (message)"}) for n in range(5)]
    agents = [note(f"a{n}", f"2026-02-{n + 1:02}", **{"from": "agent"}) for n in range(20)]
    book.add([*agents, *people])
    book.trim(max_entries=12)
    kept = [entry.get("text") for entry in book.entries]
    assert kept == [
        "use pnpm, not npm",
        "indent with tabs",
        *(f"a{n}" for n in range(14, 20)),
        *(f"p{n}" for n in range(5)),
    ]
    book.trim(max_entries=4)
    kept = [entry.get("text") for entry in book.entries]
    assert kept == ["indent with tabs", "a18", "a19", "p3", "p4"]
    assert "Keep this remark." in book.render(), "what a person wrote below a note outlives it"
    book.trim(max_bytes=0)
    assert [entry.get("text") for entry in book.entries] == ["indent with tabs"]


@pytest.mark.parametrize(
    "line",
    [
        "## a" + " " * 1000,
        "- text: x",
        "  more",
        "",
        "# x",
        "`" * 1001,
        "## e-{n:010x}\n- user: u{n}\n- text: x",
        "## e-0123456789\n- text: x\n\n- a",
    ],
)
def test_no_file_takes_long(line: str) -> None:
    unit = line + "\n"
    text = "## e-aaaaaaaaaa\n" + "".join(
        unit.replace("{n:010x}", f"{n:010x}").replace("{n}", str(n)) for n in range(MAX_FILE_BYTES // len(unit))
    )
    started = time.process_time()
    book = NotesFile.parse(text)
    book.items()
    book.add([note(str(n), "2026-01-01") for n in range(500)])
    book.trim()
    book.render()
    assert time.process_time() - started < 5
