"""What the commands compute: how a turn ended, what is printed of it, what is new in an output."""

from __future__ import annotations

import asyncio
import io
import json
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_client import Approval, ConnectionFailed, Forbidden, Question, Reply, TextDelta, TextReplaced, Unauthorized
from agent_client.cli.commands.agent.mcp import _file_of
from agent_client.cli.commands.agent.sessions import part_text
from agent_client.cli.commands.agent.skill import TEMPLATE, skill_entries
from agent_client.cli.commands.events import facts
from agent_client.cli.commands.host.cost import in_all, totals
from agent_client.cli.commands.host.workspaces import MARK_CHARACTERS, news, shown_columns
from agent_client.cli.contexts import Choice
from agent_client.cli.errors import UsageError, explain
from agent_client.cli.log_lines import entry_of, readable
from agent_client.cli.output import Output
from agent_client.cli.print_mode.printing import TextPrinter, explain_end
from agent_client.cli.print_mode.turn import Turn
from agent_client.cli.run import Invocation
from agent_client.host_messages import UsageReport, UsageSum
from agent_common.protocol import Problem, Usage


def turn(**known: Any) -> Turn:
    turn = Turn("s")
    for name, value in known.items():
        setattr(turn, name, value)
    return turn


def reply(reason: str, limit: str | None = None) -> Reply:
    return Reply("s", "m", "text", finish_reason=reason, limit=limit)


@pytest.mark.parametrize(
    ("known", "status"),
    [
        ({"reply": reply("stop")}, "done"),
        ({"reply": reply("length")}, "done"),
        ({"reply": reply("stop", "max_rounds")}, "limit"),
        ({"reply": reply("error", "max_tokens")}, "limit"),
        ({"reply": reply("error")}, "failed"),
        ({"reply": replace(reply("other"), error_code="unknown")}, "failed"),
        ({"reply": replace(reply("other", "channel"), error_code="channel_broken")}, "failed"),
        ({"reply": reply("abort")}, "aborted"),
        ({"reply": reply("abort"), "timed_out": True}, "limit"),
        ({"reply": reply("stop"), "timed_out": True}, "done"),
        ({"timed_out": True}, "limit"),
        ({"waits_for": Question("s", "q", ())}, "waits"),
        ({}, "aborted"),
    ],
)
def test_how_a_turn_ended(known: dict[str, Any], status: str) -> None:
    assert turn(**known).status == status


def test_the_end_of_a_turn_by_the_host_is_told_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    broken = "the channel to the host was broken for too long"
    explain_end(turn(reply=replace(reply("other", "channel"), error=broken, error_code="channel_broken")))
    assert capsys.readouterr().err == f"agent: the host ended the turn: {broken}\n"


def test_what_waits_is_named_by_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    explain_end(turn(waits_for=Approval("s", "approval_call_1", "call_1", "bash", {}, code="P7")))
    explain_end(turn(waits_for=Question("s", "call_2", ())))
    told = capsys.readouterr().err
    assert "`agent approve P7 --once, --always or --reject`" in told
    assert "`agent approve call_2 --answer TEXT`" in told


def printed(*events: TextDelta | TextReplaced) -> str:
    with redirect_stdout(io.StringIO()) as out:
        printer = TextPrinter(Output())
        for event in events:
            printer.print(event)
        printer.finish()
    return out.getvalue()


def test_texts_are_printed_as_they_come_and_reasoning_is_not() -> None:
    assert printed(TextDelta("hmm", 0, "reasoning"), TextDelta("a", 0), TextDelta("b", 0)) == "ab\n"
    assert printed(TextDelta("a\n", 0), TextDelta("b\n", 1)) == "a\n\nb\n"
    assert printed() == ""


def test_a_text_that_was_replaced_is_continued_or_printed_again() -> None:
    assert printed(TextDelta("ab", 0), TextReplaced("abc", 0)) == "abc\n"
    assert printed(TextDelta("abc", 0), TextReplaced("ab", 0)) == "abc\n"
    assert printed(TextDelta("ab", 0), TextReplaced("xy", 0), TextDelta("z", 0)) == "ab\nxyz\n"


# ---------------------------------------------------------------- outputs that grow

LINES = "".join(f"line {number}\n" for number in range(2000))


@given(st.integers(0, len(LINES)), st.integers(0, 3000), st.integers(3000 + MARK_CHARACTERS, 10_000))
def test_each_look_at_an_output_prints_what_is_new(before: int, more: int, window: int) -> None:
    now = LINES[: before + more]
    assert news(LINES[:before][-window:], now[-window:]) == LINES[before : before + more]


def test_an_output_that_began_again_is_printed_whole() -> None:
    assert news(LINES, "another life\n") == "another life\n"
    assert news("", "first\n") == "first\n"
    assert news("a\na\n", "a\na\na\n") == "a\n"


def test_entries_about_skills_are_found_among_other_output() -> None:
    console = "\n".join(
        (
            "not json",
            '"text"',
            '{"logger": "agent_runtime.loop", "event": "turn ended"}',
            '{"logger": "agent_runtime.skills.sources", "event": "skill changed", "file": "a.py"}',
            '{"logger": "agent_runtime.skills.validation", "event": "skill printed", "skill": "b"}',
        )
    )
    assert len(skill_entries(console, None)) == 2
    assert [one["event"] for one in skill_entries(console, "a")] == ["skill changed"]
    assert [one["event"] for one in skill_entries(console, "b")] == ["skill printed"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            '{"timestamp": "soon", "level": "warning", "event": "turn ended", "code": null, "n": 1}',
            "soon warning turn ended n=1",
        ),
        ("Traceback (most recent call last):", None),
        ('{"event": 1}', None),
        ("[" * 100_000, None),
    ],
)
def test_a_line_of_the_log_is_read(line: str, shown: str | None) -> None:
    entry = entry_of(line)
    assert (entry and readable(entry)) == shown


def test_the_template_is_a_skill_that_says_what_it_does() -> None:
    kept: dict[str, Any] = {"skill": lambda **_: lambda function: function}
    exec(TEMPLATE.format(name="count"), kept)  # noqa: S102  the text is ours
    assert kept["count"]("one two three", workspace=None) == {"words": 3}
    kept["self_check"]()


# ---------------------------------------------------------------- lines


def test_a_part_of_a_message_is_text_or_the_name_of_a_call() -> None:
    assert part_text({"type": "text", "text": "hello"}) == "hello"
    assert part_text({"type": "reasoning", "text": "hmm"}) == "(thinks) hmm"
    call = {"type": "tool-bash", "state": "output-available", "input": {"command": "ls"}}
    assert part_text(call) == '(bash {"command": "ls"})'
    failed = {**call, "state": "output-error", "errorText": "no such file"}
    assert part_text(failed) == '(bash {"command": "ls"}: no such file)'
    assert part_text({**call, "state": "output-denied"}) == '(bash {"command": "ls"}: denied)'
    assert part_text({"type": "step-start"}) == part_text({"type": "data-approval", "data": {}}) == ""


def test_the_facts_of_an_event_begin_with_those_that_a_person_looks_for() -> None:
    data = {"type": "x", "at": 1, "id": 2, "kind": "question", "user": "ann", "workspace": "ada", "error": None}
    assert facts(data) == ["workspace=ada", "user=ann", "kind=question"]


def test_dollars_are_summed_and_models_without_a_price_are_named() -> None:
    priced = UsageSum(agent_id="a", model="m", calls=1, not_complete=0, usage=Usage(input=1, cost_usd=0.5))
    unpriced = priced.model_copy(update={"model": "u", "usage": Usage(input=1), "without_price": 1})
    partly = priced.model_copy(update={"model": "p", "without_price": 39})
    assert totals(UsageReport(sums=[priced, priced, unpriced, partly], recent=[])) == (1.5, ["p", "u"])
    assert in_all(0.0156, 39, ["p", "u"]) == "at least $0.0156; 39 calls have no known price (p, u)"
    assert in_all(0.5, 0, []) == "$0.5000 in all"


def test_a_narrow_terminal_leaves_out_what_agents_have_in_common() -> None:
    assert list(shown_columns(80)) == ["workspace", "state", "channel", "running", "waiting", "folder"]
    assert {"team", "driver", "folder"} < set(shown_columns(120))


def test_an_error_says_the_fix() -> None:
    problem = Problem(title="t", status=401, detail="no token", instance="/", code="unauthorized")
    assert explain(Unauthorized(problem)).startswith("unauthorized: no token; give its token with --token-file")
    assert "operator" in explain(Forbidden(problem))
    assert "agent up" in explain(ConnectionFailed("GET http://x"))


async def test_a_host_elsewhere_names_no_file_of_this_machine(tmp_path: Path) -> None:
    known = {"id": "a", "driver": "process", "state": "running", "detail": None, "desired_state": "running"}
    known |= {"team": "t", "settings": {}, "restart_needed": False, "url": "", "data_dir": str(tmp_path)}
    body = json.dumps({**known, "created_at": 1}).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        status = b"404 Not Found" if head.startswith(b"GET /status") else b"200 OK"
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status, len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.2", 0) as server:
        url = f"http://127.0.0.2:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(UsageError, match="is not on this machine"):
            await _file_of(Invocation(choice=Choice(url=url, workspace="a")), None)
