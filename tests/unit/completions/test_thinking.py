"""Reasoning and calls that a server has left in the text."""

from __future__ import annotations

import json

import pytest

from agent_common.completions import mend_arguments
from agent_common.errors import ModelError

from .support import call, read, stream

READ = [("read", {"path": "a.txt"})]
NAMESPACE = "antml:"
START, SAYS = "<|start|>assistant", "<|message|>"
DSML = "\uff5cDSML\uff5c"
DS = [
    f"<\uff5ctool\u2581{mark}\uff5c>"
    for mark in ("calls\u2581begin", "call\u2581begin", "sep", "call\u2581end", "calls\u2581end")
]


def pieces(text: str, size: int) -> bytes:
    return stream(*({"content": text[at : at + size]} for at in range(0, len(text), size)))


@pytest.mark.parametrize(
    ("said", "text", "reasoning"),
    [
        ("<think>hm</think>4", "4", "hm"),
        ("\n<think>\nhm\n</think>\n\n4", "4", "hm"),
        ("hm\n</think>\n\n4", "4", "hm"),
        ("<think></think>4", "4", ""),
        ("<thought>hm</thought>4", "4", "hm"),
        ("[THINK]hm[/THINK]4", "4", "hm"),
        ("<|channel>thought\nhm<channel|>4", "4", "hm"),
        ("<longcat_think>hm</longcat_think>4", "4", "hm"),
        ("\u25c1think\u25b7hm\u25c1/think\u25b74", "4", "hm"),
        ("<think>a</think><think>b</think>4", "4", "ab"),
        (f"<|channel|>analysis{SAYS}hm<|end|>{START}<|channel|>final{SAYS}4", "4", "hm"),
        (f"{START}<|channel|>analysis{SAYS}hm<|end|>\n{START}<|channel|>final{SAYS}4", "4", "hm"),
        (f"<|channel|>analysis{SAYS}a<|end|><|channel|>analysis{SAYS}b<|end|><|channel|>final{SAYS}4", "4", "ab"),
        (f"<|channel|>final{SAYS}4", "4", ""),
        ("<|channel|>final", "<|channel|>final", ""),
        (f"<|channel|>analysis{SAYS}hm<|channel|>final{SAYS}4", "4", "hm"),
        (f"<|channel|>analysis{SAYS}hm{START}<|channel|>final{SAYS}4", "4", "hm"),
        ("analysisWe need 4.assistantfinalIt is 4.", "It is 4.", "We need 4."),
        ("analysisWe need 4.", "analysisWe need 4.", "We need 4."),
        ("analysis", "analysis", ""),
        ("analysis of assistantfinal", "analysis of assistantfinal", ""),
        ("<think>hm</think>analysisA.run()", "analysisA.run()", "hm"),
        ("<think>4", "4", "4"),
        ("The tag `</think>` ends it.", "The tag `</think>` ends it.", ""),
        ("```\na </think> b\n```", "```\na </think> b\n```", ""),
        ("Write <think>x</think> so.", "Write <think>x</think> so.", ""),
        ("a < b and <thinkpad>", "a < b and <thinkpad>", ""),
        ("  indented", "  indented", ""),
        ("<thin", "<thin", ""),
        ("a </thi", "a </thi", ""),
        (" \n\n ", "", ""),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_reasoning_in_the_content(said: str, text: str, reasoning: str, size: int) -> None:
    found = read(pieces(said, size))
    assert (found.text, found.reasoning.strip()) == (text, reasoning)


@pytest.mark.parametrize(
    "end",
    [
        *("<|im_end|>", "<|eot_id|>", "<|return|>", "<|end|>", "<|endoftext|>", "<|END_RESPONSE|>", "<end_of_turn>"),
        *("[|endofturn|]", "<\uff5cend\u2581of\u2581sentence\uff5c>"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_mark_of_a_messages_end_is_no_text(end: str, size: int) -> None:
    before = (
        "",
        "<think>hm</think>",
        f"<|channel|>final{SAYS}",
        "<|START_THINKING|>hm<|END_THINKING|><|START_RESPONSE|>",
    )
    for head in before:
        assert read(pieces(f"{head}It is 4{end}", size)).text == "It is 4"
    assert read(pieces(f"<|START_RESPONSE|>a{end} b\n{end}", size)).text == f"a{end} b\n"
    for said in (f"The mark is {end}", f"Write `{end}", f"`{end}`", f"a{end}.", f"It is {end} here", end[:-1], end[0]):
        assert read(pieces(said, size)).text == said
    call = f'<tool_call>{{"name": "read", "arguments": {{"path": "a.txt"}}}}</tool_call>{end}'
    assert len(read(pieces(call, size)).calls) == 1


OPEN = ("<think>\nI must.\n", "<|channel|>analysis<|message|>I must.", "[THINK]I must.", "\n<thought>I must.")
"""Reasoning whose end never comes."""


@pytest.mark.parametrize("said", [*OPEN, "analysisI must."])
@pytest.mark.parametrize("size", [1, 100])
def test_reasoning_without_an_end_is_no_text_beside_a_call(said: str, size: int) -> None:
    texts = [{"content": said[at : at + size]} for at in range(0, len(said), size)]
    structured = call(index=0, id="x", name="read", arguments="{}")
    for deltas in ([*texts, structured], [structured, *texts]):
        found = read(stream(*deltas, finish="tool_calls"))
        assert (found.text, found.reasoning.strip(), found.calls) == ("", "I must.", [("read", "{}")])


@pytest.mark.parametrize("said", OPEN)
@pytest.mark.parametrize("finish", ["length", "max_tokens"])
def test_reasoning_that_was_cut_off_is_no_answer(said: str, finish: str) -> None:
    found = read(stream({"content": said}, finish=finish))
    assert (found.text, found.reasoning.strip(), found.reader.empty) == ("", "I must.", True)


def test_a_cut_text_that_may_be_no_reasoning_is_one() -> None:
    assert read(stream({"content": "analysisA.run("}, finish="length")).text == "analysisA.run("


@pytest.mark.parametrize("content", ["</think>\n\n4", "\n</think>4"])
@pytest.mark.parametrize("size", [1, 100])
def test_an_end_that_is_left_of_reasoning_in_a_member_of_its_own_takes_nothing_back(content: str, size: int) -> None:
    texts = [content[at : at + size] for at in range(0, len(content), size)]
    body = stream({"reasoning_content": "I must."}, *({"content": text} for text in texts))
    found = read(body)
    assert (found.text.strip(), found.reasoning) == ("4", "I must.")
    assert not found.reader.began_inside_reasoning


def test_a_model_that_is_known_to_begin_inside_reasoning_shows_none_of_it_as_text() -> None:
    found = read(pieces("hm </think>4", 2), thinking=True)
    assert (found.text, found.reasoning.strip()) == ("4", "hm")
    assert found.reader.began_inside_reasoning
    plain = read(pieces("Just 4.", 2), thinking=True)
    assert (plain.text, plain.reader.began_inside_reasoning) == ("Just 4.", False)


@pytest.mark.parametrize(
    "said",
    [
        '<tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</tool_call>',
        '<tool_call>\n{"name": "read", "arguments": "{\\"path\\": \\"a.txt\\"}"}\n</tool_call>\n',
        "<tool_call>\n<function=read>\n<parameter=path>\na.txt\n</parameter>\n</function>\n</tool_call>",
        "<function=read><parameter=path>a.txt</parameter></function>",
        '<function=read>{"path": "a.txt"}</function>',
        '<function=read={"path": "a.txt"}</function>',
        "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.txt</arg_value>\n</tool_call>",
        '<function_calls>\n<invoke name="read">\n<parameter name="path">a.txt</parameter>\n</invoke></function_calls>',
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>"
        '{"path": "a.txt"}<|tool_call_end|><|tool_calls_section_end|>',
        '<|channel|>commentary to=functions.read <|constrain|>json<|message|>{"path": "a.txt"}<|call|>',
        'commentary to=functions.read json{"path": "a.txt"}',
        '[TOOL_CALLS][{"name": "read", "arguments": {"path": "a.txt"}}]',
        '[TOOL_CALLS]read[ARGS]{"path": "a.txt"}',
        '[TOOL_CALLS]read{"path": "a.txt"}',
        '<minimax:tool_call>\n<invoke name="read">\n<parameter name="path">a.txt</parameter>\n</invoke>\n'
        "</minimax:tool_call>",
        "<seed:tool_call>\n<function=read>\n<parameter=path>a.txt</parameter>\n</function>\n</seed:tool_call>",
        '<TOOLCALL>[{"name": "read", "arguments": {"path": "a.txt"}}]</TOOLCALL>',
        f'<{DSML}function_calls>\n<{DSML}invoke name="read">\n<{DSML}parameter name="path" string="true">a.txt'
        f"</{DSML}parameter>\n</{DSML}invoke>\n</{DSML}function_calls>",
        f"<|channel|>analysis{SAYS}hm<|end|>{START}<|channel|>"
        f'commentary to=functions.read json{SAYS}{{"path": "a.txt"}}',
        f'<|channel|>analysis{SAYS}hm<|channel|>commentary to=functions.read json{SAYS}{{"path": "a.txt"}}',
        '<tools>{"name": "read", "arguments": {"path": "a.txt"}}</tools>',
        '<function_call>{"name": "read", "arguments": {"path": "a.txt"}}</function_call>',
        '<longcat_tool_call>{"name": "read", "arguments": {"path": "a.txt"}}</longcat_tool_call>',
        '<|START_ACTION|>[{"tool_name": "read", "parameters": {"path": "a.txt"}}]<|END_ACTION|>',
        '<|tool_call|>[{"name": "read", "arguments": {"path": "a.txt"}}]<|/tool_call|>',
        '<|python_tag|>{"name": "read", "parameters": {"path": "a.txt"}}',
        '<|tool_call|>[{"name": "read", "arguments": {"path": "a.txt"}}]',
        f'{DS[0]}{DS[1]}function{DS[2]}read\n```json\n{{"path": "a.txt"}}\n```{DS[3]}{DS[4]}',
        f'{DS[0]}{DS[1]}read{DS[2]}{{"path": "a.txt"}}{DS[3]}{DS[4]}',
        '[TOOL_REQUEST]{"name": "read", "arguments": {"path": "a.txt"}}[END_TOOL_REQUEST]',
        '[TOOL_CALL]\n{"tool": "read", "args": {"path": "a.txt"}}\n[/TOOL_CALL]',
        'functools[{"name": "read", "arguments": {"path": "a.txt"}}]',
        '<|FunctionCallBegin|>[{"name": "read", "parameters": {"path": "a.txt"}}]<|FunctionCallEnd|>',
        '<|action_start|><|plugin|>\n{"name": "read", "parameters": {"path": "a.txt"}}<|action_end|>',
        '<toolcall>{"name": "read", "arguments": {"path": "a.txt"}}</toolcall>',
        '<|python_start|>{"name": "read", "parameters": {"path": "a.txt"}}<|python_end|>',
        'assistantcommentary to=functions.read json{"path": "a.txt"}',
        f'<|start|>assistant to=functions.read<|channel|>commentary json{SAYS}{{"path": "a.txt"}}',
        f'<|channel|>analysis to=functions.read code{SAYS}{{"path": "a.txt"}}<|call|>',
        f'{START}<|channel|>analysis to=functions.read code{SAYS}{{"path": "a.txt"}}<|call|>',
        f"<|channel|>analysis{SAYS}hm<|end|>{START}<|channel|>"
        f'analysis to=functions.read code{SAYS}{{"path": "a.txt"}}<|call|>',
        f'<|channel|>analysis{SAYS}hm<|channel|>analysis to=functions.read code{SAYS}{{"path": "a.txt"}}<|call|>',
        f'<|channel|>analysis{SAYS}hm{START}<|channel|>analysis to=functions.read{SAYS}{{"path": "a.txt"}}',
        'analysis to=functions.read json{"path": "a.txt"}',
        *(
            f'{before}<{NAMESPACE}invoke name="read">\n<{NAMESPACE}parameter name="path">a.txt</{NAMESPACE}parameter>\n'
            f"</{NAMESPACE}invoke>{after}"
            for before, after in (
                (f"<{NAMESPACE}function_calls>\n", f"\n</{NAMESPACE}function_calls>"),
                ("", ""),
                ("court\n", ""),
                ("count\n", f"\n</{NAMESPACE}function_calls>"),
                ("call\n", ""),
            )
        ),
        '<invoke name="read">\n<parameter name="path">a.txt</parameter>\n</invoke>\n</function_results>',
        '<|tool_call_start|>[read(path="a.txt")]<|tool_call_end|>',
        "<|python_start|>[read(path='a.txt')]<|python_end|>",
        '<|python_tag|>[ read( path = "a.txt", ), ]<|eom_id|>',
        '<tool_calls><tool_call>read\n```json\n{"path": "a.txt"}\n```\n</tool_call></tool_calls>',
        '<start_function_call>call:read{"path": "a.txt"}<end_function_call>',
        'call:default_api:read{"path": "a.txt"}',
        "<\uff5ctool_calls_begin\uff5c><\uff5ctool_call_begin\uff5c>function<\uff5ctool_sep\uff5c>"
        '<steptml:invoke name="read"><steptml:parameter name="path">a.txt</steptml:parameter></steptml:invoke>'
        "<\uff5ctool_call_end\uff5c><\uff5ctool_calls_end\uff5c>",
        'court\n<invoke name="read">\n<parameter name="path">a.txt</parameter>\n</invoke>',
    ],
)
@pytest.mark.parametrize("before", ["", "\n\n", "<think>hm</think>\n"])
@pytest.mark.parametrize("size", [1, 4])
def test_a_call_that_is_written_as_text_is_a_call(said: str, before: str, size: int) -> None:
    found = read(pieces(before + said, size))
    assert [(name, json.loads(arguments)) for name, arguments in found.calls] == READ
    assert (found.text, found.reader.stop_reason) == ("", "tool-calls")


@pytest.mark.parametrize("head", ["<|end|><|start|>assistant", "<|start|>assistant", ""])
def test_a_call_of_any_channel_behind_a_text_is_a_call(head: str) -> None:
    for channel in ("analysis", "commentary"):
        found = read(pieces(f'Reading.{head}<|channel|>{channel} to=functions.read code{SAYS}{{"path": "a.txt"}}', 3))
        assert [(name, json.loads(arguments)) for name, arguments in found.calls] == READ
        assert found.text == "Reading."


@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_call_behind_reasoning_without_its_marks_is_a_call(size: int) -> None:
    found = read(pieces('analysisI must.assistantcommentary to=functions.read json{"path": "a.txt"}', size))
    assert [(name, json.loads(arguments)) for name, arguments in found.calls] == READ
    assert (found.text, found.reasoning) == ("", "I must.")


def test_a_parameter_that_is_marked_as_a_text_stays_one() -> None:
    parameters = "".join(
        f'<{DSML}parameter name="{name}" string="{text}">7</{DSML}parameter>'
        for name, text in (("path", "true"), ("limit", "false"))
    )
    found = read(pieces(f'<{DSML}function_calls><{DSML}invoke name="read">{parameters}</{DSML}invoke>', 5))
    assert [json.loads(arguments) for _, arguments in found.calls] == [{"path": "7", "limit": 7}]


def test_a_written_call_without_arguments_has_none() -> None:
    assert read(pieces("<tool_call>ls\n</tool_call>", 4)).calls == [("ls", "{}")]


def test_halves_of_surrogate_pairs_in_a_written_call_are_replaced() -> None:
    said = r'<tool_call>{"name": "re\ud800ad", "arguments": "{\"path\": \"\udfffa\"}"}</tool_call>'
    assert read(pieces(said, 9)).calls == [("re\ufffdad", '{"path": "\ufffda"}')]


def test_two_written_calls_are_two() -> None:
    one = '<tool_call>{"name": "read", "arguments": {"path": "%s"}}</tool_call>'
    found = read(pieces(one % "a" + "\n" + one % "b", 9))
    assert [json.loads(arguments)["path"] for _, arguments in found.calls] == ["a", "b"]


@pytest.mark.parametrize(
    "leaked", ['<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>', "<tool_call>\n"]
)
@pytest.mark.parametrize("finish", ["tool_calls", "length"])
def test_a_call_that_its_server_has_read_and_left_in_the_text_too_is_one(leaked: str, finish: str) -> None:
    structured = call(index=0, id="c1", name="read", arguments='{"path": "a.txt"}')
    for deltas in ([{"content": leaked}, structured], [structured, {"content": leaked}]):
        found = read(stream({"content": "hm</think>"}, *deltas, finish=finish))
        assert (found.text, [made.id for made in found.reader.calls]) == ("", ["c1"])
        assert found.reader.began_inside_reasoning
    said = read(stream({"content": "Reading. " + leaked}, structured))
    assert (said.text, len(said.calls)) == ("Reading. " + leaked, 1)


@pytest.mark.parametrize(
    "said",
    [
        'Call it so: <tool_call>{"name": "read", "arguments": {}}</tool_call>',
        '`<tool_call>{"name": "read", "arguments": {}}</tool_call>`',
        "<toolbox> is a tag",
        "functools has partial and cache",
        "[TOOL] and [TOOLS] are words",
        "assistants comment on it",
        '<tools>\n <tool id="1">hammer</tool>\n</tools>',
        "<tools>[hammer, saw]</tools>",
        "<function_call> is an element that holds the call of a function.",
        "Some write `<|channel|>analysis to=functions.read code` and mean a call.",
        "<|channel|>analysis of the channels",
        "analysis to=functions that are pure",
        f'Claude writes `<{NAMESPACE}invoke name="read">` so.',
        f'Write <{NAMESPACE}function_calls><{NAMESPACE}invoke name="read"></{NAMESPACE}invoke> for it.',
        f"`<{NAMESPACE}function_calls>` begins a block.",
        "court\n<invoice>12</invoice>",
        "call\n`<invoke name=` is how it begins.",
        'Hold court\n<invoke name="read"></invoke>',
        "count\n3",
        "call: me",
        "call:default",
        "`<|tools_prefix|>` begins them.",
        "Step writes <\uff5ctool_calls_begin\uff5c> so.",
    ],
)
def test_a_call_in_prose_is_text(said: str) -> None:
    found = read(pieces(said, 5))
    assert (found.text, found.calls) == (said, [])


def test_a_written_call_without_tools_on_offer_is_text() -> None:
    said = '<tool_call>{"name": "read", "arguments": {}}</tool_call>'
    assert read(pieces(said, 5), tools=False).text == said


@pytest.mark.parametrize(
    "said",
    [
        "<|tool_call>call:read{path:a}",
        "<|tool_call_start|>[read(path=a)]",
        '<|python_start|>[read("a")]<|python_end|>',
        "<|python_tag|>[read(path='a",
        '<|tools_prefix|>[{"read": {"path": "a"}}]<|tools_suffix|>',
        "<start_function_call>call:read{path:<escape>a<escape>}<end_function_call>",
        "call:default_api:read{path:a}",
        '[TOOL_CALL]{tool => "read", args => { --path "a" }}[/TOOL_CALL]',
        '<xai:function_call name="read">a',
        '<tool_call>{"name": "rea',
        "<tool_call>what now?",
        '<tool_call>{"path": 1}</tool_call>',
        '<tools>{"name": "read", "arguments": {"path": "a',
        '<function_call>{"name": "rea',
    ],
)
def test_what_begins_as_a_call_and_is_none_is_asked_again(said: str) -> None:
    with pytest.raises(ModelError, match="a call as text that cannot be read") as caught:
        read(pieces(said, 5))
    assert caught.value.transient


def test_a_written_call_that_was_cut_off_is_not_run() -> None:
    cut = read(stream({"content": '<tool_call>{"name": "rea'}, finish="length"))
    assert (cut.calls, cut.reader.stop_reason) == ([], "length")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ('"{\\"path\\": \\"a\\"}"', {"path": "a"}),
        ("null", {}),
        ("[]", {}),
        ('{"a": 1e400}', None),
        ('{"a": {"b": 1, "b": 2}}', None),
        ('{"a": 1.5}', {"a": 1.5}),
        ('""', {}),
        ('{"a": "one\ntwo\t\\d \\u12"}', {"a": "one\ntwo\t\\d \\u12"}),
        ('{"a": "C:\\\\x \\" \\n"}', {"a": 'C:\\x " \n'}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": 1}}', {"a": 1}),
        ('{"a": 1}<|call|>', {"a": 1}),
        ('{"a": 1}\n</tool_call>', {"a": 1}),
        ('{"a\\udfff": ["\\ud800b", "\\ud83d\\ude00"]}', {"a\ufffd": ["\ufffdb", "\U0001f600"]}),
        ('{"\\ud800": 1, "\\udfff": 2}', None),
        ('[{"a": 1}]', {"a": 1}),
        ('[{"a": 1}, {"b": 2}]', None),
        ('{"a": [1, 2,], "b": ",}",}', {"a": [1, 2], "b": ",}"}),
        ("{'a': 'it\\'s \"so\" {None,}', 'b': True, 'c': None}", {"a": 'it\'s "so" {None,}', "b": True, "c": None}),
        ('{"a": "it\'s True", "b": False}', {"a": "it's True", "b": False}),
        ("{'a': 1, 'a': 2}", None),
        ("{'a': 'cut", None),
        ('{"a": 1} and more', None),
        ('{"a": 1', None),
        ('{"a": 1}{"b": 2}', None),
        ("[1]", None),
        ("3", None),
        ("path=a", None),
        ('"just text"', None),
    ],
)
def test_arguments_that_say_plainly_what_was_meant_are_mended(text: str, meant: object) -> None:
    assert mend_arguments(text) == meant
