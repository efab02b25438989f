"""The pieces of the chat by themselves: answers, menus, changes, tool lines, commands, completion."""

from __future__ import annotations

import stat
from pathlib import Path
from time import process_time
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rich.cells import cell_len

from agent_client import Agent, Approval, ToolResult
from agent_client.chat import duration
from agent_client.cli.chat.approval import Decision, approval_menu, decision_of_line
from agent_client.cli.chat.blocks import FileChange, Paper, ToolLine, change_lines, counted, difference
from agent_client.cli.chat.commands import COMMANDS, find_command
from agent_client.cli.chat.file_changes import planned_change
from agent_client.cli.chat.questions import Asked, answers_of, answers_of_line, asked, question_menu
from agent_client.cli.chat.screen import ChatCompleter, Choice, Completable, Menu, Picked, open_history, size
from agent_client.cli.chat.screen.completion import matching
from agent_client.cli.chat.screen.history import MAX_BYTES
from agent_client.cli.chat.status_line import Part, dollars, drawn_status
from agent_client.cli.errors import UsageError
from agent_common.protocol import WorkspaceEntry

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
APPROVAL = Approval("s", "a", "c", "deploy", {"to": "prod"}, code="K7")
RULES = [{"permission": "bash", "pattern": "git push *", "action": "allow"}]
DAYS = Asked("Which days?", "", [("Mon", ""), ("Tue", ""), ("Wed", "")], multiple=True)
COLOURS = Asked("Which colour?", "", [("blue", ""), ("red", "")])


def shown(menu: Menu, width: int = 80) -> str:
    return "".join(Paper(color=False).ansi(part, width) for part in (menu.drawn_title(), menu.drawn_choices()))


# ---------------------------------------------------------------- approvals


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("yes K7", Decision("once")),
        ("no k7", Decision("reject")),
        ("no K7, too dangerous", Decision("reject", "too dangerous")),
        ("yes M4", None),
        ("yes", None),
        ("always K7", None),
        ("1", None),
    ],
)
def test_an_answer_to_an_approval_is_read(line: str, read: Decision | None) -> None:
    """A line that was written before the approval was shown does not have its code."""
    assert decision_of_line(APPROVAL, line) == read


def test_an_approval_shows_what_would_run_and_what_always_allows() -> None:
    approval = Approval(
        "s",
        "a",
        "c",
        "bash",
        {"command": "git push origin\nrm x", "workdir": "/w"},
        "a rule asks",
        RULES,
        "K7",
        "default",
    )
    menu, decisions = approval_menu(approval)
    text = shown(menu)
    said = ("Allow", "$ git push origin", "rm x", '"workdir"', "a rule asks", "git push *", "Code K7")
    for part in (*said, "always in this session", "always with agent default, in all your sessions"):
        assert part in text
    words = [(one.word, one.scope) for one in decisions]
    assert words == [("once", None), ("always", "session"), ("always", "agent"), ("reject", None)]
    assert [chosen(menu, key) for key in "12ayn"] == [Picked((row,)) for row in (0, 1, 1, 0, 3)]


def chosen(menu: Menu, *texts: str) -> Picked | None:
    """What Enter chooses after the text in front of it was these, one after the other."""
    for text in ("", *texts):
        menu.type(text)
    return menu.enter(texts[-1])


@pytest.mark.parametrize(
    "texts", [("w", "wait"), ("a", "al", "a"), ("01",), ("9",), ("x",), (" ", " y"), ("1" * 5000,)]
)
def test_words_in_front_of_an_approval_reject_it_with_them(texts: tuple[str, ...]) -> None:
    menu, decisions = approval_menu(Approval("s", "a", "c", "bash", {"command": "ls"}, "", RULES))
    assert chosen(menu, *texts) == Picked((3,), texts[-1].strip())
    assert "Enter rejects" in shown(menu)
    menu.move(1)
    assert decisions[menu.cursor].word == "reject", "words stay with their choice"
    assert chosen(menu, *texts, "", "y") == Picked((0,))


def test_without_rules_always_is_not_offered() -> None:
    menu, decisions = approval_menu(Approval("s", "a", "c", "deploy", {"to": "prod"}))
    assert [one.word for one in decisions] == ["once", "reject"]
    assert chosen(menu, "a") == Picked((1,), "a")
    assert chosen(menu, "n") == Picked((1,))


@pytest.mark.parametrize(
    "change",
    [
        FileChange("g\u0456t.sh", "", "ls\n"),
        FileChange("run.sh", "", "curl https://g\u0456thub.com\n"),
        FileChange("run.sh", "curl https://g\u0456thub.com\n", ""),
        FileChange("run.sh", "# g\u0456thub\nls\n", "# g\u0456thub\nrm\n"),
    ],
)
def test_a_change_that_is_decided_on_shows_letters_that_look_like_others(change: FileChange) -> None:
    text = shown(approval_menu(Approval("s", "a", "c", "write", {}), change)[0])
    assert "g\\u0456t" in text


@given(JSON)
def test_any_input_of_a_call_can_be_shown(value: Any) -> None:
    for tool in ("bash", "write", "todo", "question", "other"):
        assert shown(approval_menu(Approval("s", "a", "c", tool, value))[0])
        line = ToolLine("1", tool, value, result=ToolResult("1", tool, value))
        assert line.text(40).plain
        assert line.text(40).cell_len <= 80


# ---------------------------------------------------------------- questions


@pytest.mark.parametrize(
    ("question", "line", "answers"),
    [
        (COLOURS, "2", ["red"]),
        (COLOURS, "BLUE", ["blue"]),
        (COLOURS, "3", ["3"]),
        (COLOURS, "1, 2", ["1, 2"]),
        (COLOURS, "green", ["green"]),
        (DAYS, "1,3", ["Mon", "Wed"]),
        (DAYS, "tue, 1, tue", ["Tue", "Mon"]),
        (DAYS, "1, never", ["1, never"]),
        (Asked("Why?"), " because ", ["because"]),
        (Asked("Why?"), "1", ["1"]),
    ],
)
def test_a_typed_answer_is_read(question: Asked, line: str, answers: list[str]) -> None:
    assert answers_of_line(question, line) == answers


@given(JSON)
def test_any_question_can_be_asked(raw: Any) -> None:
    question = asked(raw)
    menu = question_menu(question, 1, 2)
    assert shown(menu)
    if question.options:
        assert answers_of(question, Picked((0,))) == [question.options[0][0]]


def test_several_choices_are_ticked() -> None:
    menu = question_menu(DAYS, 1, 1)
    menu.tick()
    menu.move(-1)
    menu.tick()
    assert menu.enter("") == Picked((0, 2))
    assert "◉ Mon" in shown(menu)
    menu.tick()
    assert menu.enter("") == Picked((0,))
    assert menu.enter(" other ") == Picked(text="other")


def test_a_long_menu_shows_what_is_around_the_cursor() -> None:
    menu = Menu("Which?", [Choice(f"row {number}") for number in range(50)])
    menu.move(-1)
    assert "row 49" in shown(menu)
    assert "row 1 " not in shown(menu)
    assert "50 of 50" in shown(menu)
    assert Menu("Empty").enter("") is None


# ---------------------------------------------------------------- changes and tool lines


def test_a_change_has_the_numbers_of_its_lines() -> None:
    before = "".join(f"line {number}\n" for number in range(1, 21))
    change = FileChange("a", before, before.replace("line 10\n", "line ten\nand more\n"))
    lines = [line.plain for line in change_lines(change)]
    assert lines == [
        " 8   line 8",
        " 9   line 9",
        "10 - line 10",
        "10 + line ten",
        "11 + and more",
        "12   line 11",
        "13   line 12",
    ]
    assert counted(difference(change)) == (2, 1)
    assert next(change_lines(FileChange("a", "x", "y", whole=False))).plain == "- x"
    assert [line.plain for line in change_lines(FileChange("a", "", before), 3)][-1] == "… 17 more lines"


@pytest.mark.parametrize(("content", "after"), [("a", "a"), ({"a": "\u00e9"}, '{\n  "a": "\u00e9"\n}\n'), ([], "[]\n")])
async def test_a_change_has_what_is_written(content: Any, after: str) -> None:
    absent = httpx2.MockTransport(lambda _: httpx2.Response(404))
    async with Agent("http://server", transport=absent) as agent:
        assert await planned_change(agent, "write", {"path": "a.json", "content": content}) == FileChange(
            "a.json", "", after, whole=False
        )


@given(st.text(), st.text())
def test_a_change_says_all_that_is_new(before: str, after: str) -> None:
    lines = difference(FileChange("a", before, after))
    added = [line.text for line in lines if line.sign == "+"]
    removed = [line.text for line in lines if line.sign == "-"]
    assert len(after.splitlines()) - len(before.splitlines()) == len(added) - len(removed)
    assert set(added) <= set(after.splitlines())


@pytest.mark.parametrize(
    ("name", "given_input", "output", "line"),
    [
        ("bash", {"command": "make\nmake test"}, {"exit_code": 2}, "✗ bash make …  exit 2"),
        ("read", {"path": "a"}, {"range": {"unit": "lines", "first": 3, "last": 3, "total": 9}}, "✓ read a  1 line"),
        ("grep", {"pattern": "x", "path": "src"}, {"matches": [1, 2]}, "✓ grep x in src  2 matches"),
        ("write", {"path": "a"}, {"created": True}, "✓ write a  new"),
        ("task", {"subagent_type": "explore", "prompt": "look"}, {}, "✓ task explore: look"),
        ("edit", {"path": "a"}, {"unknown": 1}, "✓ edit a"),
        ("weather", {"city": "Oslo"}, {}, "✓ weather Oslo"),
    ],
)
def test_a_call_is_a_line(name: str, given_input: Any, output: Any, line: str) -> None:
    result = ToolResult("1", name, {"type": "output", "data": output})
    assert ToolLine("1", name, given_input, result=result).text(60).plain.rstrip() == line


def test_a_long_call_is_cut_at_the_width_of_the_terminal() -> None:
    line = ToolLine("1", "bash", {"command": "echo " + "日本" * 80})
    assert cell_len(line.text(60).plain) <= 60
    failed = ToolResult("1", "bash", {"type": "error", "error_text": "no such thing"})
    line.result = failed
    assert line.failed
    assert "no such thing" in line.text(100).plain


@pytest.mark.parametrize(("seconds", "text"), [(0.34, "0.3s"), (12.4, "12s"), (65, "1m 05s"), (7500, "2h 05m")])
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


# ---------------------------------------------------------------- commands, completion, history, status


def test_commands_are_found_by_what_is_clear() -> None:
    assert find_command(COMMANDS, "cost").name == "cost"
    assert find_command(COMMANDS, "FOR").name == "fork"
    for wrong in ("co", "nothing", ""):
        with pytest.raises(UsageError):
            find_command(COMMANDS, wrong)
    with pytest.raises(UsageError, match=r"there is no command /modle; did you mean /model[?]"):
        find_command(COMMANDS, "modle")


def entry(name: str) -> WorkspaceEntry:
    kind = "folder" if name in ("notes", ".git") else "file"
    return WorkspaceEntry.model_validate({"name": name, "type": kind, "modified": 0})


class Files:
    """A workspace of two folders."""

    async def entries(self, folder: str) -> list[WorkspaceEntry]:
        names = {"": ["notes", "README.md", ".git", "a b.txt"], "notes": ["plan.md", "old-plan.md"]}.get(folder, [])
        return [entry(name) for name in names]


async def completions(text: str) -> list[str]:
    async def values(name: str) -> list[str]:
        return ["default", "deep", "\x1b[2J"] if name == "model" else []

    commands = [Completable(one.name, one.help) for one in COMMANDS]
    completer = ChatCompleter(commands, values, Files())  # type: ignore[arg-type]
    found = completer.get_completions_async(Document(text), CompleteEvent())
    return [completion.text async for completion in found]


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/co", ["/compact", "/context", "/cost"]),
        ("/model de", ["default", "deep"]),
        ("/model ", ["default", "deep"]),
        ("see @no", ["notes/"]),
        ("see @notes/pl", ["plan.md", "old-plan.md"]),
        ("@", ["notes/", "README.md"]),
        ("@.g", [".git/"]),
        ("me@example", []),
        ("hello", []),
    ],
)
async def test_commands_and_files_are_completed(typed: str, offered: list[str]) -> None:
    assert await completions(typed) == offered


def test_what_begins_so_comes_first() -> None:
    entries = [entry(name) for name in ("b-a", "ab", "zz", "A")]
    assert [one.name for one in matching(entries, "a")] == ["A", "ab", "b-a"]


async def test_history_is_private_bounded_and_survives(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "history"
    first = open_history(path)
    first.append_string("line one\nline two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    again = open_history(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one async for one in again.load()] == ["line one\nline two"]
    with path.open("ab") as file:
        for number in range(MAX_BYTES // 100 + 1000):
            file.write(b"\n# time\n+" + str(number).encode() * 20 + b"\n" + b"+" + b"x" * 90 + b"\n")
    bounded = open_history(path)
    assert path.stat().st_size <= MAX_BYTES
    latest = await anext(bounded.load())
    assert latest.startswith(str(MAX_BYTES // 100 + 999))
    link = tmp_path / "link"
    link.symlink_to(path)
    open_history(link).append_string("not here")
    assert b"not here" not in path.read_bytes()


def test_the_status_line_leaves_out_what_does_not_fit() -> None:
    parts = [Part("default", 5), Part("a-model", 4), Part("A title that is long", 1), Part("12% context", 6)]

    def line(width: int) -> str:
        return "".join(piece[1] for piece in drawn_status(parts, width))

    assert line(80) == "  default · a-model · A title that is long · 12% context"
    assert line(40) == "  default · a-model · 12% context"
    assert line(10) == "  12% context"


def test_costs_and_sizes_are_read_at_a_glance() -> None:
    assert [dollars(cost) for cost in (None, 0.0, 0.01234, 1.5)] == ["", "$0.00", "$0.0123", "$1.50"]
    assert [size(count) for count in (5, 2048, 50_000, 3_000_000)] == ["5 B", "2.0 KB", "49 KB", "2.9 MB"]


@pytest.mark.parametrize("times", [500, 50_000])
def test_a_model_writes_no_change_whose_comparison_takes_long(times: int) -> None:
    began = process_time()
    change = FileChange("a", "same\n" + "x\ny\n" * times, "same\n" + "y\nx\nx\n" * times)
    added, removed = counted(difference(change))
    assert added - removed == times
    assert process_time() - began < 5


def test_a_line_of_a_long_file_is_changed_alone() -> None:
    lines = [str(number) for number in range(10_000)]
    change = FileChange("a", "\n".join(lines), "\n".join([*lines[:5000], "new", *lines[5001:]]))
    assert [(line.sign, line.number, line.text) for line in difference(change)] == [
        (" ", 4999, "4998"),
        (" ", 5000, "4999"),
        ("-", 5001, "5000"),
        ("+", 5001, "new"),
        (" ", 5002, "5001"),
        (" ", 5003, "5002"),
    ]
