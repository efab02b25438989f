"""What a session is told: within budgets, as data, and of its own principal only."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_common.line_text import note_key
from agent_runtime.learnings import render_section
from agent_runtime.learnings.notes_file import NoteEntry, NotesFile, code_span
from agent_runtime.learnings.section import (
    CORRECTIONS_BUDGET,
    ERRORS_BUDGET,
    INTRODUCTION,
    MAX_CORRECTION_LENGTH,
    principal_label,
)


def correction(text: str, source: str = "person (message)", last: str = "2026-11-05 10:00", **fields: str) -> NoteEntry:
    return NoteEntry(note_key("c", source, text), {"from": source, "last": last, **fields, "text": code_span(text)})


def failed(text: str, times: int = 1, last: str = "2026-11-05 10:00", **fields: str) -> NoteEntry:
    told = {"tool": "read", "error": "invalid", "times": str(times), "last": last, **fields, "text": code_span(text)}
    return NoteEntry(note_key("e", text), told)


def book(*entries: NoteEntry, text: str = "") -> NotesFile:
    made = NotesFile.parse(text)
    made.add(entries)
    return made


def block(text: str, tag: str) -> list[str]:
    found = re.search(rf"<{tag}>\n(.*?)\n</{tag}>", text, re.DOTALL)
    return found[1].split("\n") if found else []


def test_nothing_to_tell_is_nothing() -> None:
    assert render_section(book(text="# Corrections\n\nwords\n"), book(), "operator") == ""


def test_what_is_told() -> None:
    corrections = book(
        correction("use pnpm", times="2", **{"answer to": code_span("I ran npm")}),
        correction("be brief", "agent", **{"instead of": code_span("long answers"), "where": code_span("chats")}),
        text="- Always answer in Dutch\n",
    )
    text = render_section(corrections, book(failed("path: is required", 3)), "operator")
    assert text.startswith(INTRODUCTION)
    assert block(text, "corrections") == [
        "- [person, by hand] Always answer in Dutch",
        "- [person (message), 2026-11-05, 2 times] use pnpm (answer to: I ran npm)",
        "- [agent, 2026-11-05] be brief (instead of: long answers; where: chats)",
    ]
    assert block(text, "errors") == ["- [read, invalid, 2026-11-05, 3 times] path: is required"]


def test_ten_thousand_long_errors_displace_no_correction() -> None:
    errors = book(*(failed(f"{n} " + "<&x" * 400, times=10_000 - n) for n in range(10_000)))
    corrections = book(*(correction(f"{n} " + "y" * 80) for n in range(20)))
    alone, both = render_section(corrections, book(), "operator"), render_section(corrections, errors, "operator")
    assert block(alone, "corrections") == block(both, "corrections")
    assert len(block(both, "corrections")) == 20
    assert block(both, "errors")
    assert len(both) < len(INTRODUCTION) + CORRECTIONS_BUDGET + ERRORS_BUDGET + 100


def test_agents_do_not_displace_people_nor_they_agents() -> None:
    theirs = [correction(f"agent {n} " + "x" * 480, "agent") for n in range(200)]
    people = [correction(f"person {n} " + "x" * 480) for n in range(200)]
    for some, more in ((people[:2], theirs), (theirs[:2], people)):
        told = block(render_section(book(*some, *more), book(), "operator"), "corrections")
        assert all(any(entry.get("text")[:8] in line for line in told) for entry in some)
        assert len("\n".join(told)) > CORRECTIONS_BUDGET - MAX_CORRECTION_LENGTH - 100, (
            "what one leaves is for the other"
        )


def test_the_latest_and_the_most_frequent_are_told() -> None:
    old = [failed(f"old {n} " + "x" * 250, times=n + 1, last="2026-01-01 00:00") for n in range(50)]
    new = [failed(f"new {n} " + "x" * 250, last=f"2026-02-{n % 28 + 1:02} 00:00") for n in range(28)]
    told = block(render_section(book(), book(*old, *new), "operator"), "errors")
    assert [" ".join(line.split("] ")[1].split()[:2]) for line in told[:4]] == ["new 27", "old 49", "new 26", "old 48"]


def test_a_principal_sees_only_what_is_its_own_or_everybodys() -> None:
    corrections = book(
        correction("mine", user="ada"), correction("hers", user=principal_label("grace h")), correction("all of us")
    )
    errors = book(failed("my error", user="ada"), failed("her error", user=principal_label("grace h")))
    mine, hers = render_section(corrections, errors, "ada"), render_section(corrections, errors, "grace h")
    assert ("mine" in mine, "hers" in mine, "all of us" in mine, "her error" in mine) == (True, False, True, False)
    assert ("mine" in hers, "hers" in hers, "all of us" in hers, "her error" in hers) == (False, True, True, True)
    assert "her" not in block(render_section(corrections, errors, "grace  h"), "corrections")


@settings(deadline=None)
@given(st.text(max_size=30), st.text(max_size=30))
def test_no_two_principals_have_the_same_name(one: str, other: str) -> None:
    assert (principal_label(one) == principal_label(other)) == (one == other)
    assert "\n" not in principal_label(one)


hostile = st.text("</>&learnings corrections\n\r\u2028\x1b\u202e`-[]#", max_size=80)


@settings(deadline=None)
@given(st.lists(hostile), hostile, hostile)
def test_nothing_in_it_closes_the_tag_or_begins_a_line(texts: list[str], aside: str, tool: str) -> None:
    corrections = book(
        *(correction(f"x{text}", **{"instead of": code_span(aside or "y")}) for text in texts), text=aside
    )
    errors = book(*(failed(f"x{text}", tool=tool) for text in texts), text="\n".join(texts))
    text = render_section(corrections, errors, "operator").removeprefix(INTRODUCTION)
    assert set(re.findall("<[^>]*>", text)) <= {"<corrections>", "</corrections>", "<errors>", "</errors>"}
    assert text.count("<") <= 4
    for line in text.split("\n")[1:]:
        assert re.match(r"- \[|<|\[\d+ more are in learnings/(corrections|errors)\.md\]$", line), line
        assert line.isprintable()


def test_what_has_no_room_is_counted() -> None:
    many = book(*(correction(f"{number} {'x' * 400}") for number in range(20)), text="- by hand\n")
    told = block(render_section(many, book(), "operator"), "corrections")
    assert told[-1] == f"[{21 - (len(told) - 1)} more are in learnings/corrections.md]"
    assert "more are in" not in render_section(book(correction("one")), book(), "operator")
