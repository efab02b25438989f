"""The events of a turn as a document: the same whatever was seen before, with nothing forged."""

from __future__ import annotations

from typing import Any

import pytest

from agent_client import (
    Approval,
    ChatEvent,
    ConnectionFailed,
    Finished,
    Notice,
    Question,
    Queued,
    Reply,
    Started,
    Steered,
    StepStarted,
    TextDelta,
    TextReplaced,
    ToolCall,
    ToolResult,
    UnexpectedReply,
)
from agent_client.errors import api_error
from agent_common.protocol import Problem
from frontends.conversation.replies import HINT, Rendition, ending, file_links, laid_out, trouble_of
from tests.bot_platform import LENGTH, MemoryPlatform


def shown(*events: ChatEvent) -> str:
    rendition = Rendition()
    for event in events:
        rendition.add(event)
    return "\n\n".join(rendition.parts())


def ended(text: str = "", **more: Any) -> Finished:
    return Finished(Reply("s", "m", text, finish_reason=more.pop("reason", "stop"), **more))


def test_texts_and_tools_come_in_their_order() -> None:
    result = ToolResult("c1", "bash", {"data": {"exit_code": 0}, "metadata": {"duration_ms": 1240}})
    events = [
        Started("s", "m"),
        StepStarted(1),
        TextDelta("thinking", 0, "reasoning"),
        TextDelta("Let me ", 0),
        TextDelta("look.", 0),
        ToolCall("c1", "bash", {"command": "ls -la"}),
        ToolCall("c2", "read", {"path": "a`b.py"}),
    ]
    assert shown(*events) == "Let me look.\n\n⚙ **bash** `ls -la`  \n⚙ **read** ``a`b.py``"
    failed = ToolResult("c2", "read", error="no such\nfile *x*")
    events += [result, failed, StepStarted(2), TextDelta("Done.", 1), ended("Done.")]
    text = shown(*events)
    assert text == (
        "Let me look.\n\n✓ **bash** `ls -la` · 1.2s  \n✗ **read** ``a`b.py`` · no such file \\*x\\*\n\nDone."
    )


def test_waiting_for_a_person_is_shown_until_it_is_over() -> None:
    call = ToolCall("c1", "bash", {"command": "rm x"})
    rendition = Rendition()
    for event in (Started("s", "m"), call, Approval("s", "a1", "c1", "bash", {"command": "rm x"})):
        rendition.add(event)
    assert rendition.parts() == ["⏸ **bash** `rm x` · waits for a decision"]
    assert not rendition.works
    rendition.add(ToolResult("c1", "bash", {"data": {"exit_code": 1}}))
    assert rendition.parts() == ["✗ **bash** `rm x` · exit 1"]
    assert rendition.works


def test_a_question_is_shown_with_its_answer() -> None:
    given = {"questions": [{"question": "Which [colour](x)?"}]}
    events = (ToolCall("q", "question", given), Question("s", "q", given["questions"]))
    assert shown(*events) == "❓ Which \\[colour\\]\\(x\\)?"
    answered = ToolResult("q", "question", {"data": {"answers": [["blue"]]}})
    assert shown(*events, answered) == "❓ Which \\[colour\\]\\(x\\)? → **blue**"


def test_what_passes_leaves_no_trace() -> None:
    assert shown(Queued(2)) == "⏳ Waits for 2 other turns."
    assert shown(Queued(1), Started("s", "m")) == ""
    retrying = Notice("status", {"state": "retrying"})
    assert "again" in shown(Started("s", "m"), retrying)
    assert shown(Started("s", "m"), retrying, TextDelta("x", 0)) == "x"


def test_a_call_of_the_model_that_broke_off_is_not_part_of_the_answer() -> None:
    events = (StepStarted(1), TextDelta("half an ans", 0), Notice("retry", {}), TextDelta("the answer", 1))
    assert shown(*events) == "the answer"
    assert shown(TextDelta("abc", 0), TextReplaced("ab", 0)) == "ab"


def test_messages_that_joined_are_quoted() -> None:
    rendition = Rendition()
    rendition.add(Steered({"message_id": "m2", "parts": [{"type": "text", "text": "faster\n# now"}]}))
    assert rendition.parts() == ["↳ *faster \\# now*"]


def test_the_end_is_told_in_plain_words() -> None:
    assert ending(Reply("s", "m", "", finish_reason="abort", error_code="cancelled")) == "⏹ Stopped."
    limited = Reply("s", "m", "", finish_reason="error", error_code="model_rate_limited", retry_after=2.5)
    assert ending(limited) == "⚠️ The model's provider has too many calls at once. Try again in 3 s."
    assert "restarted" in ending(Reply("s", "m", "", finish_reason="error", error_code="interrupted"))
    assert "a\\*b" in ending(Reply("s", "m", "", finish_reason="error", error_code="failed", error="a*b"))
    assert "length" not in ending(Reply("s", "m", "x", finish_reason="length"))
    assert ending(Reply("s", "m", "x", finish_reason="stop")) == ""
    assert shown(Started("s", "m"), ended()) == "(The agent has not answered anything.)"


def test_a_part_ends_where_a_person_was_asked() -> None:
    rendition = Rendition()
    approval = Approval("s", "a1", "c1", "bash", {"command": "rm x"})
    calls = [ToolCall("c1", "bash", {"command": "rm x"}), approval, ToolCall("c2", "read", {"path": "y"})]
    results = [ToolResult("c1", "bash", {}), ToolResult("c2", "read", {})]
    question = ToolCall("c3", "question", {"questions": [{"question": "Why?"}]})
    answer = ToolResult("c3", "question", {"data": {"answers": [["so"]]}})
    events = [TextDelta("First.", 0), *calls, *results, TextDelta("Then.", 1), question, answer, ended("")]
    for event in (Started("s", "m"), *events, TextDelta("Last.", 2)):
        rendition.add(event)
    tools = "✓ **bash** `rm x`  \n✓ **read** `y`"
    assert rendition.parts() == [f"First.\n\n{tools}", "Then.\n\n❓ Why? → **so**", "Last."]
    assert rendition.parts("later")[-1] == "Last.\n\nlater"


def test_files_are_sent_that_the_answer_links() -> None:
    text = (
        "Here: [report](workspace:out/my%20report.pdf), ![a](<workspace:a b.png>), [up](workspace:../x),"
        " [again](workspace:out/my%20report.pdf), [web](https://example.org)\n```\n[no](workspace:no.txt)\n```\n"
    )
    assert [one.path for one in file_links(text)] == ["out/my report.pdf", "a b.png"]
    assert shown(TextDelta("See [it](workspace:a/b`c.txt).", 0)) == "See 📎 ``b`c.txt``."
    assert file_links(HINT)[0].path == "path/to/file.pdf"
    assert [one.path for one in file_links("[see [the report](workspace:a.pdf) and [" + "[" * 1000)] == ["a.pdf"]


def test_a_long_answer_ends_as_a_file() -> None:
    split = MemoryPlatform().split
    short = laid_out(["x" * LENGTH * 5], split, complete=True)
    assert (len(short.pieces), short.whole) == (5, None)
    document = "x" * (LENGTH * 5 + 1)
    running, complete = (laid_out([document], split, complete=done) for done in (False, True))
    assert len(running.pieces) == len(complete.pieces) == 5
    assert (running.whole, complete.whole) == (None, document)
    assert running.pieces[:4] == complete.pieces[:4]
    assert laid_out([], split, complete=True).pieces == []
    parts = ["first", "x" * LENGTH * 5]
    assert [piece.markdown for piece in laid_out(parts, split, complete=True).pieces][:1] == ["first"]
    assert laid_out(parts, split, complete=True).whole is None


@pytest.mark.parametrize(
    ("status", "code", "passing"),
    [
        (401, "unauthorized", True),
        (403, "link", False),
        (404, "unknown_session", False),
        (409, "not_running", True),
        (409, "quarantined", True),
        (409, "session_archived", False),
        (413, "message_too_long", False),
        (429, "busy", True),
        (500, "failed", False),
        (502, "agent_unreachable", True),
        (503, "not_ready", True),
        (507, "no_room", False),
    ],
)
def test_what_may_pass_is_tried_again(status: int, code: str, passing: bool) -> None:
    problem = Problem(title="", status=status, detail="it *is* so", instance="/", code=code)
    trouble = trouble_of(api_error(problem, None))
    assert trouble.passing == passing
    assert passing or "it \\*is\\* so" in trouble.words
    assert trouble_of(ConnectionFailed()).passing
    assert not trouble_of(UnexpectedReply()).passing


def test_no_more_of_an_answer_is_split_than_its_messages_hold() -> None:
    given: list[int] = []

    def split_short(markdown: str) -> list[str]:
        given.append(len(markdown))
        return [markdown[:10]]

    parts = ["x" * 1_000_000, "the end"]
    complete = laid_out(parts, split_short, complete=True)
    assert given == [30_000]
    assert "all of it is in" in complete.pieces[-1].markdown
    assert complete.whole == "\n\n".join(parts)
