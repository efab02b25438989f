"""Calls, however a provider numbers, names and repeats their pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_common.completions import CallStarted, CompletionReader
from agent_common.errors import ModelError

from .support import call, read, stream

A, B = '{"path": "a"}', '{"path": "b"}'
RAW = '{"path": "a\n"}'
BOTH = [("read", A), ("read", B)]
ONE = [("read", A)]


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        ([call(index=0, id="x", name="read", arguments=A), call(index=0, id="y", name="read", arguments=B)], BOTH),
        ([call(index=0, id="", name="read", arguments=A), call(index=0, id="", name="read", arguments=B)], BOTH),
        ([call(index=0, name="read", arguments=A), call(index=0, name="glob", arguments=B)], [*ONE, ("glob", B)]),
        ([call(id="x", name="read", arguments=A), call(id="y", name="read", arguments=B)], BOTH),
        ([call(name="read", arguments=A), call(name="read", arguments=B)], BOTH),
        ([call(id="x", name="read", arguments=A), call(id="x", name="glob", arguments=B)], [*ONE, ("glob", B)]),
        ([call(index="0", id="x", name="read"), call(index="0", arguments=A)], ONE),
        ([{"tool_calls": [*call(index=0, id="x", name="read", arguments=A)["tool_calls"],
                          *call(index=0, id="y", name="read", arguments=B)["tool_calls"]]}], BOTH),
        (
            [
                call(index=0, id="x", name="read", arguments='{"path": '),
                call(index=1, id="y", name="read", arguments='{"path": '),
                call(index=0, arguments='"a"}'),
                call(index=1, arguments='"b"}'),
            ],
            BOTH,
        ),
        ([call(index=0, id="x", name="ls", arguments=""), call(index=0, id="y", name="read", arguments=A)],
         [("ls", ""), *ONE]),
        ([call(index=0, id="x", name="ls", arguments="{"), call(index=0, id="y", name="read", arguments=A)],
         [("ls", "{"), *ONE]),
        ([call(index=1, id="x", name="read"), call(index=0, arguments=A), call(index=2, id="y", name="read"),
          call(index=1, arguments=B[:5]), call(index=1, arguments=B[5:])], BOTH),
        ([call(id="x", name="read", arguments=RAW), call(id="y", name="read", arguments=B)], [("read", RAW), BOTH[1]]),
        ([call(index=0, id="x", name="read", arguments=RAW), call(index=0, id="y", name="read", arguments=B)],
         [("read", RAW), BOTH[1]]),
        ([call(index=0, id="read", name="read", arguments=A), call(index=0, id="read", name="read", arguments=B)],
         BOTH),
        ([call(id="read", name="read", arguments=A), call(id="read", name="read", arguments=B)], BOTH),
        ([call(index=0, id="read", name="read", arguments=one) for one in ('{"path": ""}', A)],
         [("read", '{"path": ""}'), *ONE]),
        ([call(index=0, id="x", name="read", arguments=A), call(index=0, id="y", name="read", arguments=B[:5]),
          call(index=1, arguments=B[5:])], BOTH),
        ([call(index=0, id=f"x{n}", name="read", arguments=piece)
          for n, piece in enumerate((A[:8], A[8:], "", "", B[:8], B[8:]))], BOTH),
        ([call(index=0, id="x", name="read", arguments=A), call(index=0, id="y", name="read", arguments="")],
         [*ONE, ("read", "")]),
    ],
    ids=["index 0", "empty ids", "no ids", "no index", "nothing", "one id", "index as text", "in one", "interleaved",
         "without arguments", "broken off", "index of the step", "raw line break, no index", "raw line break",
         "the name for an id", "the name for an id, no index", "the name for an id, a longer text",
         "tail under another index", "an id for each piece", "the second without arguments"],
)  # fmt: skip
def test_parallel_calls_stay_apart(deltas: list[Any], calls: list[Any]) -> None:
    found = read(stream(*deltas))
    assert found.calls == calls
    assert found.reader.stop_reason == "tool-calls"
    assert len({made.id for made in found.reader.calls}) == len(calls)


@pytest.mark.parametrize(
    ("made", "calls"),
    [
        ([call(id="read", name="read", arguments=A), call(id="read", name="read", arguments=A)], [*ONE, *ONE]),
        ([call(id="read", name="read", arguments=A), call(id="read", name="read", arguments=B)], BOTH),
        ([call(id="x", name="read", arguments=A), call(id="y", name="", arguments="{}")], [*ONE, ("", "{}")]),
        ([call(name="read", arguments=A[:4]), call(name="read", arguments=A)], [("read", A[:4]), *ONE]),
    ],
)
def test_each_call_of_a_document_is_one(made: list[Any], calls: list[Any]) -> None:
    message = {"tool_calls": [one["tool_calls"][0] for one in made]}
    document = {"choices": [{"message": message, "finish_reason": "tool_calls"}]}
    assert read(json.dumps(document).encode()).calls == calls


@pytest.mark.parametrize(
    "deltas",
    [
        [call(index=0, id=f"x{n}", arguments=piece, **({} if n else {"name": "read"})) for n, piece in enumerate(A)],
        [call(id="x", name="read", arguments=piece) for piece in A],
        [call(name="read", arguments=piece) for piece in (A[:5], A[5:])],
        [call(name="read", arguments=piece) for piece in ("", A[:5], A[5:])],
        [call(index=0, id="x", name="read", arguments=piece) for piece in A],
        [call(index=0, id=f"x{n}", name="read", arguments=piece) for n, piece in enumerate(("", A[:5], A[5:]))],
        [call(index=0, id=f"x{n}", name="read", arguments=piece) for n, piece in enumerate((A[:8], A[8:], ""))],
        [call(index=0, id="x", name=None, arguments=""), call(index=0, name="read"), call(index=0, arguments=A)],
        [call(index=0, id="x", name="", arguments=A), call(index=0, name="read")],
        [call(index=0, name="read"), call(index=0, arguments=A), call(index=0, id="x")],
        [call(index=2, id="x", name="read"), call(index=1, arguments=A[:4]), call(index=1, arguments=A[4:])],
        [call(index=0, id="x", name="read"), call(id="x", arguments=A)],
        [call(index=0, id="x", name="read"), *(call(index=n, arguments=piece) for n, piece in enumerate(A, 1))],
        [call(index=0, id="x", name="read", arguments="{}"), call(index=0, id="x", name="read", arguments=A)],
        [call(index=0, id="x", name="read", arguments="{}"), call(index=0, arguments=A)],
        [call(index=0, id="x", name="read", arguments="null"), call(index=0, arguments=A)],
        [call(index=0, id="x", name="read", arguments="{}" + A)],
        [call(index=0, id="x", name="read", arguments="{ }null" + A[:5]), call(index=0, arguments=A[5:])],
        [call(index=0, id="x", name="read", arguments=A + A)],
        [call(index=0, id="x", name="read", arguments='{"path":"a"}\n' + A)],
        [call(index=0, id="x", name="read", arguments=piece) for piece in ('{"path":', '"a"}', {"path": "a"})],
        [call(index=0, id="x", name="read", arguments=A), call(index=0, id="x", name="read", arguments=A)],
        [call(index=0, id="x", name="read"), *(call(index=0, arguments=piece) for piece in (A[:6], A[6:], A))],
        [call(index=0, id="x", name="read", arguments=A[:at]) for at in (3, 8, len(A))],
        [call(index=0, id="x", name="read", arguments=A), call(index=0, id="x", name="read", arguments="")],
        [call(index=0, id="x", name="read", arguments=A), call(index=0, arguments="null")],
        [call(index=0, id="x", name="read", arguments=A), call(index=0, id="x", name="read", arguments='""')],
        [call(index=n, id=f"x{n}", arguments=piece, **({} if n else {"name": "read"}))
         for n, piece in enumerate((A[:4], A[4:8], A[8:]))],
        [call(index=n, id="x", name="read", arguments=piece) for n, piece in enumerate((A[:4], A[4:8], A[8:]))],
        [{"tool_calls": [{"index": 0, "id": "x", "name": "read", "input": {"path": "a"}}]}],
        [{"tool_calls": [{"index": 0, "id": "x", "function": {"name": "read", "parameters": {"path": "a"}}}]}],
        [{"tool_calls": [{"index": 0, "id": "x", "function": '{"name": "read", "arguments": {"path": "a"}}'}]}],
        [{"content": [{"type": "tool_use", "id": "x", "name": "read", "input": {"path": "a"}}]}],
        [{"function_call": {"name": "read", "arguments": ""}}, {"function_call": {"arguments": A}}],
        [{"tool_calls": {"index": 0, "id": "x", "function": {"name": "read", "arguments": A}}}],
        [{"tool_calls": [{"index": 0, "id": "x", "name": "read", "arguments": A}]}],
        [call(index=0, id="x", name="read<|channel|>commentary", arguments=A)],
        [call(index=0, id="x", name="functions.read:0", arguments=A)],
        [call(index=0, id="x", name=" read\n", arguments=A)],
        [call(index=0, id="x", name="functions.read:0<|tool_call_argument_begin|>", arguments=A)],
        [call(index=0, id="x", name="<|tool_call_begin|>functions.read:0", arguments=A)],
        [call(index=0, id="x", name="read</tool_call>", arguments=A)],
        [call(index=0, id="x", name="assistant<|channel|>commentary to=functions.read", arguments=A)],
        [call(index=0, id="x", name="<function=read>", arguments=A)],
        [call(index=0, id="x", name="<tool_call>read", arguments=A)],
        [call(index=0, id="x", name="read\n<arg_key>path", arguments=A)],
        [call(index=0, id="x", name="function<\uff5ctool\u2581sep\uff5c>read", arguments=A)],
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [0, 1])
def test_one_call_is_one(deltas: list[Any], size: int) -> None:
    found = read(stream(*deltas), size)
    assert found.calls == ONE
    assert [name for _, name in found.started] == ["read"]


GROWING = [
    '{"path": "h"}',
    '{"path": "he"}',
    '{"path": "hel", "lines": [{"n": 1}]}',
    '{"path": "hel", "lines": [{"n": 1, "on": true}, 2]}',
]


@pytest.mark.parametrize("members", [{"index": 0, "id": "x", "name": "read"}, {"id": "x", "name": "read"}])
@pytest.mark.parametrize("later", [{}, {"id": "x"}, {"id": "x", "name": "read"}])
def test_arguments_that_come_again_and_longer_are_those_of_one_call(
    members: dict[str, Any], later: dict[str, Any]
) -> None:
    index = {name: value for name, value in members.items() if name == "index"}
    deltas = [call(**(index | later if at else members), arguments=piece) for at, piece in enumerate(GROWING)]
    found = read(stream(*deltas))
    assert (found.calls, len(found.started)) == ([("read", GROWING[-1])], 1)


def named(*names: str, **members: Any) -> list[dict[str, Any]]:
    """The deltas of a call whose name comes so."""
    first, *more = names
    return [call(**members, name=first), *(call(index=0, name=name) for name in more), call(index=0, arguments=A)]


@pytest.mark.parametrize(
    ("deltas", "name"),
    [
        (named("edit_ex", "isting_file", index=0, id="x"), "edit_existing_file"),
        (named("edit", "_ex", "isting", "_file", index=0, id="x", arguments=""), "edit_existing_file"),
        (named("re", "read", "read", index=0, id="x"), "read"),
        (named("r", "re", "read", index=0), "read"),
        (named("read", "read", index=0, id="x", arguments=""), "read"),
        (named("functions.", "read", ":0", index=0, id="x"), "read"),
        (named("functions.read", "read", index=0, id="x"), "read"),
        (named("read", "<|channel|>", "commentary", index=0, id="x"), "read"),
        (named("", "re", "ad", index=0, id="x"), "read"),
        ([call(id="x", name="re"), call(name="ad"), call(arguments=A)], "read"),
        ([call(id="x", name="re"), call(id="x", name="read"), call(id="x", arguments=A)], "read"),
        ([call(name="re"), call(name="read"), call(arguments=A)], "read"),
        ([call(index=0, id="x", name="re"), call(index=0, name="ad", arguments=A[:5]), call(index=0, arguments=A[5:])],
         "read"),
        ([{"function_call": {"name": "re"}}, {"function_call": {"name": "ad"}}, {"function_call": {"arguments": A}}],
         "read"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tools", [(), ("read", "ls")])
def test_a_name_in_pieces_or_growing_is_one(deltas: list[dict[str, Any]], name: str, tools: tuple[str, ...]) -> None:
    found = read(stream(*deltas), names=frozenset(tools))
    assert found.calls == [(name, A)]
    assert [started for _, started in found.started] == [name]


def test_a_name_behind_arguments_changes_nothing() -> None:
    deltas = [call(index=0, id="x", name="read", arguments=A[:5]), call(index=0, name="ing"), call(arguments=A[5:])]
    assert read(stream(*deltas)).calls == ONE


@pytest.mark.parametrize(
    ("name", "tools", "started"),
    [
        ("read", ("read", "glob"), True),
        ("functions.read", ("read", "glob"), True),
        ("read", ("read", "read_file"), False),
        ("re", ("read",), False),
        ("read", (), False),
    ],
)
def test_a_call_starts_with_its_name_where_that_is_certain(name: str, tools: tuple[str, ...], started: bool) -> None:
    reader = CompletionReader(1, names=frozenset(tools))
    head = {"choices": [{"delta": call(index=0, id="x", name=name, arguments="")}]}
    assert list(reader.feed(head)) == ([CallStarted("x", "read")] if started else [])


def test_a_call_starts_at_the_latest_when_another_begins() -> None:
    reader = CompletionReader(1)
    heads = [{"choices": [{"delta": call(index=at, id=f"x{at}", name="read")}]} for at in range(2)]
    assert [list(reader.feed(head)) for head in heads] == [[], [CallStarted("x0", "read")]]
    assert list(reader.finish()) == [CallStarted("x1", "read")]


def test_the_id_that_comes_late_is_the_calls() -> None:
    found = read(stream(call(index=0, name="read", arguments=A), call(index=0, id="late__thought__sig")))
    assert found.started == (("late__thought__sig", "read"),)


def test_arguments_as_an_object_and_none_at_all() -> None:
    found = read(stream(call(index=0, id="x", name="read", arguments={"path": "a"}), call(index=1, id="y", name="ls")))
    assert found.calls == [("read", A), ("ls", "")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (A, B),
        ('{"n": 1}', '{"n": true}'),
        ('{"n": [1, 2]}', '{"n": [1]}'),
        ('{"n": ["a"]}', '{"n": ["b", "c"]}'),
        (RAW, RAW.replace("a", "b")),
        (A, "{}"),
        (A, A[:-1]),
    ],
)
def test_glued_arguments_are_no_call_that_runs(first: str, second: str) -> None:
    (found,) = read(stream(call(index=0, id="x", name="read", arguments=first), call(index=0, arguments=second))).calls
    assert found == ("read", first + second)


def test_only_a_placeholder_is_an_argument() -> None:
    assert read(stream(call(index=0, id="x", name="ls", arguments="{}"))).calls == [("ls", "{}")]


def test_pieces_that_are_equal_are_genuine() -> None:
    pieces = ['{"text": "', "\\n", "\\n", '"}']
    deltas = [call(index=0, id="x", name="write", arguments=piece) for piece in pieces]
    assert read(stream(*deltas)).calls == [("write", '{"text": "\\n\\n"}')]
    assert read(stream({"content": "a"}, {"content": "\n"}, {"content": "\n"}, {"content": "b"})).text == "a\n\nb"


def test_impossible_names_stay_as_they_came() -> None:
    unnamed = call(index=1, id="y", name="", arguments="{}")
    found = read(stream(call(index=0, id="x", name="multi_tool_use.parallel"), unnamed))
    assert [name for name, _ in found.calls] == ["multi_tool_use.parallel", ""]


def test_unknown_members_are_kept_with_the_call() -> None:
    signed = {"extra_content": {"google": {"thought_signature": "QUJD"}}}
    (found,) = read(stream(call(index=0, id="x", name="read", arguments=A, **signed, type="function"))).reader.calls
    assert found.fields == signed
    later = read(stream(call(index=0, id="x", name="read", arguments=A), call(index=0, **signed)))
    assert later.reader.calls[0].fields == signed


def test_there_is_a_limit() -> None:
    with pytest.raises(ModelError, match="more than 256 tool calls"):
        read(stream(*(call(index=n, id=str(n), name="read") for n in range(257))))


@pytest.mark.parametrize(
    "empty",
    [
        {"index": 1, "id": "y", "name": "", "arguments": ""},
        {"index": 1, "id": "y"},
        {"id": "y", "name": None, "arguments": None},
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_a_call_that_says_nothing_beside_others_is_none(empty: dict[str, Any], first: bool) -> None:
    real = call(index=0, id="x", name="read", arguments='{"a": 1}')
    odd = call(**{**empty, "index": 7})
    found = read(stream(*((odd, real) if first else (real, odd)), finish="tool_calls"))
    assert found.calls == [("read", '{"a": 1}')]
    alone = read(stream(odd, finish="tool_calls")).reader.calls
    assert [made.id for made in alone] == ["y"]
