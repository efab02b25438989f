"""Calls in a text that does not begin with a model's own notation: bare JSON, behind prose, and in reasoning."""

from __future__ import annotations

import json

import pytest

from agent_common.errors import ModelError

from .support import Answer, call, read, stream

NAMES = frozenset({"read", "glob", "web_fetch"})
READ = [("read", {"path": "a.txt"})]
BARE = '{"name": "read", "parameters": {"path": "a.txt"}}'
SAYS = "<|message|>"
COMMENTARY = f'<|channel|>commentary to=functions.read <|constrain|>json{SAYS}{{"path": "a.txt"}}<|call|>'
KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
    '{"path": "a.txt"}<|tool_call_end|><|tool_calls_section_end|>'
)
BEGIN, SEP, END = (f"<\uff5ctool\u2581{mark}\uff5c>" for mark in ("call\u2581begin", "sep", "call\u2581end"))
BEGINS, ENDS = (mark.replace("call", "calls") for mark in (BEGIN, END))
DSML = "<\uff5cDSML\uff5c"


def asked(said: str, size: int, finish: str = "stop", names: frozenset[str] = NAMES) -> Answer:
    texts = ({"content": said[at : at + size]} for at in range(0, len(said), size))
    return read(stream(*texts, finish=finish), names=names)


def called(answer: Answer) -> list[tuple[str, object]]:
    return [(name, json.loads(arguments)) for name, arguments in answer.calls]


@pytest.mark.parametrize(
    "said",
    [
        BARE,
        f"\n\n{BARE}\n",
        '{"name": "read", "arguments": {"path": "a.txt"}}',
        '{"name": "functions.read", "arguments": "{\\"path\\": \\"a.txt\\"}"}',
        '{"parameters": {"path": "a.txt"}, "name": "read"}',
        '{"type": "function", "name": "read", "parameters": {"path": "a.txt"}}',
        '{"type": "function", "function": {"name": "read", "arguments": {"path": "a.txt"}}}',
        '{"function": {"name": "read", "arguments": {"path": "a.txt"}}}',
        '{"id": "call_1", "type": "function", "function": {"name": "read", "arguments": {"path": "a.txt"}}}',
        '{"tool": "read", "args": {"path": "a.txt"}}',
        f"```json\n{BARE}\n```",
        f"```\n{BARE}\n```",
        f"[{BARE}]",
        json.dumps(json.loads(BARE), indent=2),
        f"{BARE}<|eom_id|>",
        f"<think>hm</think>\n\n{BARE}",
    ],
)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_text_that_is_nothing_but_a_call_in_json_is_one(said: str, size: int) -> None:
    found = asked(said, size)
    assert (found.text.strip(), called(found), found.reader.stop_reason) == ("", READ, "tool-calls")


@pytest.mark.parametrize(
    "said",
    [
        '[read(path="a.txt")]',
        "\n[read(path='a.txt')]\n",
        '[ read( path = "a.txt", ) ]',
        '[read(path="a.txt")]<|eot_id|>',
        "<think>hm</think>[read(path='a.txt')]",
    ],
)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_text_that_is_nothing_but_a_list_of_calls_of_python_is_one(said: str, size: int) -> None:
    found = asked(said, size)
    assert (found.text.strip(), called(found), found.reader.stop_reason) == ("", READ, "tool-calls")


def test_values_of_python_are_read_as_they_are() -> None:
    said = """[glob(), web_fetch(a="it's, )]", b='x "y" = (z)', c=[1, {'d': None}], e=True, f=-1.5,)]"""
    given = {"a": "it's, )]", "b": 'x "y" = (z)', "c": [1, {"d": None}], "e": True, "f": -1.5}
    assert called(asked(said, 3)) == [("glob", {}), ("web_fetch", given)]


@pytest.mark.parametrize(
    "said",
    [
        '[read(path="a.txt")] is how you call it.',
        "[read](https://example.org) says so",
        "[read(path)] reads it",
        "[read()",
        "[reads(path='a')]",
        "[other(path='a')]",
        "[read(path='a'), other()]",
        "[read, glob]",
        "[r",
        'Call `[read(path="a.txt")]`.',
        "[read(path=open('a'))]",
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_what_is_no_list_of_calls_of_known_tools_is_text(said: str, size: int) -> None:
    found = asked(said, size)
    assert (found.text, found.calls) == (said, [])


@pytest.mark.parametrize("between", ["\n", "; ", ", ", ""])
def test_two_calls_in_json_are_two(between: str) -> None:
    assert called(asked(BARE + between + BARE, 5)) == [*READ, *READ]


@pytest.mark.parametrize(
    "said",
    [
        '{"name": "Alice", "age": 3}',
        '{"name": "write", "parameters": {"path": "a.txt"}}',
        '{"name": "read"}',
        '{"name": "read", "input": 3}',
        '{"parameters": {"path": "a.txt"}}',
        '{"type": "object", "properties": {"name": {"type": "string"}}}',
        '{"id": "call_1", "total": 4}',
        '{"answer": 4}',
        '{"answer": "to be cut o',
        f"{BARE} is how it is called.",
        f"Call it so: {BARE}",
        f"[{BARE}, 3]",
        "[1] says so",
        "[]",
        "{}",
        "{",
        '{"na',
        '{"name": "re',
        "```python\nprint(1)\n```",
        f"```json\n{BARE}\n```\nSo it is called.",
        '```json\n{"answer": 4}\n```',
        "``",
        '{"name": ' + " " * 2000 + '"read"',
    ],
)
@pytest.mark.parametrize("size", [1, 4, 5000])
def test_json_that_is_no_call_of_a_tool_is_text(said: str, size: int) -> None:
    found = asked(said, size)
    assert (found.text, found.calls) == (said, [])


def test_a_call_in_json_is_text_where_no_tools_are_known() -> None:
    assert asked(BARE, 5, names=frozenset()).text == BARE
    assert read(stream({"content": BARE}), names=NAMES, tools=False).text == BARE


@pytest.mark.parametrize("said", ['{"answer": 4, ', '{"name": "Alice", ', '```json\n{"a": ', '{"type": "object", '])
def test_json_that_is_no_call_is_shown_while_it_comes(said: str) -> None:
    found = read(stream({"content": said}, finish=None)[:-14], names=NAMES)
    assert found.reader.received == len(said)
    assert found.text == said


@pytest.mark.parametrize(
    "said",
    [
        BARE[:-1],
        BARE[:-2],
        '{"name": "read", "arguments": {"path": a.txt}}',
        f"```json\n{BARE[:-1]}\n```",
        f"I must.{KIMI[:-50]}",
        f"I must.{COMMENTARY[:-15]}",
        f"I must.{BEGIN}read{SEP}{{",
    ],
)
def test_a_call_that_is_broken_is_asked_again(said: str) -> None:
    with pytest.raises(ModelError, match="a call as text that cannot be read") as caught:
        asked(said, 5)
    assert caught.value.transient


@pytest.mark.parametrize("said", [BARE[:-1], BARE])
def test_a_call_in_json_that_was_cut_off_is_not_run(said: str) -> None:
    found = asked(said, 5, "length")
    assert (found.text, found.calls) == (said, [])


@pytest.mark.parametrize(
    "said",
    [
        KIMI,
        KIMI.removeprefix("<|tool_calls_section_begin|>").removesuffix("<|tool_calls_section_end|>"),
        COMMENTARY,
        f"<|start|>assistant{COMMENTARY}",
        f"<|end|><|start|>assistant{COMMENTARY}",
        f'<|start|>assistant to=functions.read<|channel|>commentary json{SAYS}{{"path": "a.txt"}}',
        f'{BEGINS}{BEGIN}function{SEP}read\n```json\n{{"path": "a.txt"}}\n```{END}{ENDS}',
        f'{BEGIN}read{SEP}{{"path": "a.txt"}}{END}',
        f'{DSML}function_calls>{DSML}invoke name="read">{DSML}parameter name="path" string="true">a.txt'
        f"</{DSML[1:]}parameter></{DSML[1:]}invoke></{DSML[1:]}function_calls>",
    ],
)
@pytest.mark.parametrize(
    "before", ["I'll read it. ", "Use `ls`, or\n```\nls\n```\n", "hm</think>So: ", "<think>hm</think>So: "]
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_call_between_a_models_special_tokens_is_one_behind_prose_too(said: str, before: str, size: int) -> None:
    found = asked(before + said, size)
    assert (found.text, called(found)) == (before.rpartition("</think>")[2], READ)


@pytest.mark.parametrize(
    "said",
    [
        f"Kimi writes `{KIMI}`.",
        f"So:\n```\n{KIMI}\n```\n",
        "The token <|tool_call_begin|> begins a call.",
        "The token <|tool_calls_section_begin|>",
        "a <|tool_call_b",
        f"{KIMI[:10]} and <|end|>",
        f"A call ends with {END} there.",
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_special_tokens_that_are_spoken_of_are_text(said: str, size: int) -> None:
    found = asked(said, size)
    assert (found.text, found.calls) == (said, [])


@pytest.mark.parametrize("head", ["<|channel|>commentary", "<|start|>assistant<|channel|>commentary"])
@pytest.mark.parametrize("thought", ["", f"<|channel|>analysis{SAYS}hm<|end|>", f"<|channel|>analysis{SAYS}hm"])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_what_is_said_before_a_call_in_its_channel_is_text(head: str, thought: str, size: int) -> None:
    said = f"{thought}{head}{SAYS}I must.<|end|><|start|>assistant{COMMENTARY}"
    found = asked(said, size)
    assert (found.text, found.reasoning, called(found)) == ("I must.", "hm" if thought else "", READ)
    assert asked(f"{thought}{head}{SAYS}It is 4.", size).text == "It is 4."


def test_a_call_behind_prose_that_its_server_has_read_too_is_one() -> None:
    structured = call(index=0, id="c1", name="read", arguments='{"path": "a.txt"}')
    found = read(stream({"content": f"Reading.{KIMI}"}, structured, finish="tool_calls"))
    assert (found.text, called(found)) == ("Reading.", READ)


def test_a_call_behind_prose_is_held_back_up_to_a_limit() -> None:
    said = f"Reading.{KIMI[:-50]}" + "x" * 300_000
    assert asked(said, 10_000).text == said


@pytest.mark.parametrize(
    "said",
    [
        f"<think>I must.\n<tool_call>\n{BARE}\n</tool_call>",
        f"<think>\nI could write <tool_call> and\n<tool_call>{BARE}</tool_call>\n",
        f"<thought>I must.{KIMI}",
        "<think>I must.<function=read><parameter=path>a.txt</parameter></function>",
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_call_in_reasoning_that_has_no_end_is_one(said: str, size: int) -> None:
    found = asked(said, size)
    assert (found.text, called(found), found.reader.stop_reason) == ("", READ, "tool-calls")


def test_a_call_of_a_model_that_is_known_to_begin_inside_reasoning_is_one() -> None:
    assert called(read(stream({"content": f"<tool_call>{BARE}</tool_call>"}), thinking=True)) == READ


@pytest.mark.parametrize(
    ("said", "finish"),
    [
        (f"<think>I must.<tool_call>{BARE}</tool_call>", "length"),
        (f"<think>I must.<tool_call>{BARE}</tool_call></think>4", "stop"),
        (f"<think>They write <tool_call>{BARE}</tool_call> there.", "stop"),
        ("<think>They write <tool_call>.", "stop"),
    ],
)
def test_a_call_that_reasoning_only_speaks_of_is_none(said: str, finish: str) -> None:
    assert asked(said, 7, finish).calls == []
