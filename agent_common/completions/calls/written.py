"""Read calls that a model has written as text in its own notation, because its server has no parser for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, cast

from ...json_reader import JsonRefused, check_cost, read_json
from ...protocol import is_object
from .arguments import ARGUMENT_LIMITS
from .assembler import clean_name
from .pythonic import BEGINS, read_python_calls
from .unmarked import ARGUMENT_MEMBERS, NAME_MEMBERS, is_broken_call

_ALSO_IN_XML = ("<tools>", "<function_call>")
"""Tags that an answer of another kind may begin with."""
_CLAUDES = "antml:"
_NAMESPACE = f"(?:\uff5cDSML\uff5c|steptml:|{_CLAUDES})?+"
"""What DeepSeek, Step and Claude write in front of the names of their tags."""
NOTATIONS = (
    *("<tool_call>", "<function=", "<tool_calls>", "<function_calls>", "<invoke name="),  # Hermes, Qwen, Llama, GLM
    *("<minimax:tool_call>", "<seed:tool_call>", "<TOOLCALL>"),  # MiniMax, Seed, Nemotron
    *("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),  # Kimi
    *("<|channel|>commentary to=", "commentary to=functions.", "<|start|>assistant<|channel|>commentary"),  # gpt-oss
    *("[TOOL_CALLS]", "<|python_tag|>", "<|tool_call|>", "<|tool_calls|>"),  # Mistral, Llama, Granite, Phi
    *("<\uff5ctool\u2581calls\u2581begin\uff5c>", "<\uff5ctool\u2581call\u2581begin\uff5c>"),  # DeepSeek
    "<\uff5cDSML\uff5c",  # DeepSeek since 3.2
    *("<|start|>assistant to=functions.", "<xai:function_call", *_ALSO_IN_XML),  # gpt-oss, Grok, Qwen
    *("<|tool_call_start|>", "<|tool_call>", "<|START_ACTION|>", "<longcat_tool_call>"),  # LFM, Gemma, Command, LongCat
    *("[TOOL_REQUEST]", "[TOOL_CALL]", "<|python_start|>", "functools[{"),  # LM Studio, MiniMax, Llama 4, Phi
    *("<|FunctionCallBegin|>", "<|action_start|>", "<toolcall>"),  # Doubao, InternLM
    *("assistantcommentary to=functions.", "assistantanalysis to=functions."),  # gpt-oss without its marks
    *(f"{head}analysis to=functions." for head in ("", "<|channel|>", "<|start|>assistant<|channel|>")),
    *(f"<{_CLAUDES}{tag}" for tag in ("function_calls>", "invoke name=")),
    *("<|tools_prefix|>", "<start_function_call>", "call:default_api:"),  # Apertus, Gemma, Gemini
    "<\uff5ctool_calls_begin\uff5c>",  # Step
    *(f"{word}\n<{name}invoke name=" for word in ("court", "count", "call") for name in ("", _CLAUDES)),
)
"""What such a text begins with."""
_HEADS_OF_MESSAGES = ("<|end|><|start|>assistant", "<|start|>assistant", "")
"""How a message of gpt-oss begins, with the end of the one before it."""
MARKS = (
    *("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),  # Kimi
    *(
        "<\uff5ctool\u2581calls\u2581begin\uff5c>",
        "<\uff5ctool\u2581call\u2581begin\uff5c>",
        "<\uff5cDSML\uff5c",
    ),  # DeepSeek
    *(
        f"{head}<|channel|>{channel} to=functions."
        for head in _HEADS_OF_MESSAGES
        for channel in ("commentary", "analysis")
    ),
    *(f"{head} to=functions." for head in _HEADS_OF_MESSAGES[:2]),
)
"""Special tokens. Prose has none of them, so a call begins there also behind prose."""
FINAL_MARKS = (
    *("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|return|>", "<|end|>", "<|endoftext|>", "<|end_of_text|>"),
    *("<|END_RESPONSE|>", "<|END_OF_TURN_TOKEN|>", "<end_of_turn>", "[|endofturn|]"),
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
"""Special tokens that stand behind an answer."""
_NAMES_A_TOOL = re.compile(
    r"name\"|name=\"|<\|tool_call_argument_begin\|>|to=functions\.\w|<\uff5ctool\u2581sep\uff5c>"
)
_ANY_NOTATION = re.compile("|".join(map(re.escape, NOTATIONS)))
_MOST_TRIED = 16
"""Beginnings of calls in one reasoning that are tried."""
_MOST_LOOKED_AT = 256 * 1024
"""Characters at its end in which they are looked for."""
_DECODER = json.JSONDecoder(strict=False)  # noqa: TID251  the cost of the text is checked
# Possessive throughout: the text is the model's own, and what could match in many ways would be tried in all of them.
_NAMED = re.compile(
    r"<\|tool_call_begin\|>(?P<kimi>[^<]++)<\|tool_call_argument_begin\|>"
    r"|<function=(?P<llama>[^>={\s]++)[>=]?"
    r"|(?:(?:assistant)?+(?:commentary|analysis)|<\|start\|>assistant)\s++to=(?P<harmony>[\w.\-]++)[^{]*+(?=\{)"
    r"|\[TOOL_CALLS\]\s*+(?P<mistral>[\w.\-]++)\s*+(?:\[CALL_ID\]\w++)?+(?:\[ARGS\]|(?=\{))"
    r"|<\uff5ctool\u2581call\u2581begin\uff5c>(?:function<\uff5ctool\u2581sep\uff5c>)?+(?P<deepseek>[\w.\-]++)"
    r"(?:<\uff5ctool\u2581sep\uff5c>)?+[^{]*+(?=\{)"
    rf"|<{_NAMESPACE}invoke name=\"(?P<invoke>[^\"]++)\">"
    r"|<tool_call>\s*+(?P<glm>[\w.\-]++)\s*+(?=<arg_key>|</tool_call>)"
    r"|(?:<tool_call>\s*+)?+(?P<hunyuan>[\w.\-]++)\s*+```json\s*+(?=\{)"
    r"|call:(?:default_api:)?+(?P<gemma>[\w.\-]++)(?=\{)"
)
"""A name that stands before its arguments."""
_PARAMETERS = (
    re.compile(
        rf"\s*+<{_NAMESPACE}parameter(?:=|\s++name=\")(?P<name>[^>\"]++)\"?+(?P<attributes>[^>]*+)>"
        rf"\n?+(?P<value>.*?)\n?</{_NAMESPACE}parameter>",
        re.DOTALL,
    ),
    re.compile(
        r"\s*+<arg_key>(?P<attributes>)(?P<name>(?:(?!</arg_key>).)*+)</arg_key>\s*+<arg_value>(?P<value>.*?)</arg_value>",
        re.DOTALL,
    ),
)
_GLUE = re.compile(
    r"(?:\s|</?(?:minimax:|seed:|\uff5cDSML\uff5c)?tool_calls?>"
    rf"|</?{_NAMESPACE}function(?:_calls)?>|</{_NAMESPACE}(?:invoke|function_results)>"
    rf"|(?:court|count|call)\s*+(?=<(?:{_CLAUDES})?+invoke )"
    r"|</?TOOLCALL>|</?tools>|</?function_call>|</?longcat_tool_call>|<\|(?:START|END)_ACTION\|>"
    r"|\[TOOL_CALLS\]|\[/TOOL_CALLS\]|```(?:json)?|[;,]"
    r"|\[/?TOOL_CALL\]|\[(?:END_)?TOOL_REQUEST\]|</?toolcall>|functools(?=\[)|<\|FunctionCall(?:Begin|End)\|>"
    r"|<\|start\|>assistant|<\|/?(?!tool_call_begin|channel)[a-z_]+\|>|<\|channel\|>(?=commentary|analysis to=)"
    r"|<\uff5ctool\u2581(?!call\u2581begin)[^\uff5c]*\uff5c>"
    r"|<\uff5ctool_[a-z_]++\uff5c>|function(?=<\uff5ctool_sep)|<(?:start|end)_function_call>"
    rf"|{'|'.join(map(re.escape, FINAL_MARKS))})+"
)
_MARKED_AS_TEXT = 'string="true"'


class NotCalls(ValueError):
    """The text is not calls and nothing else."""


class BrokenCall(NotCalls):
    """JSON in it cannot be read."""


def read_written_calls(text: str, names: frozenset[str] | None = None) -> list[tuple[str, str]]:
    """Return name and arguments of each call in a text that is nothing but calls; with `names` only those of these
    tools count, with their arguments. Raises NotCalls."""
    try:
        check_cost(text.encode(errors="replace"), ARGUMENT_LIMITS)
    except JsonRefused as refused:
        raise NotCalls(str(refused)) from None
    found = list(_calls(text, names))
    if not found:
        raise NotCalls("there is no call in it")
    return found


def read_calls_at_end(text: str) -> list[tuple[str, str]]:
    """Return the calls that a text ends with, in a model's own notation; none if it does not."""
    text = text[-_MOST_LOOKED_AT:]
    for notation in islice(_ANY_NOTATION.finditer(text), _MOST_TRIED):
        with suppress(NotCalls):
            return read_written_calls(text[notation.start() :])
    return []


def is_plain(text: str, why: NotCalls, *, unmarked: bool, behind_text: bool) -> bool:
    """Return whether a text that is not calls is an answer, and no call that went wrong: JSON of another kind, one in
    XML, or about the marks of calls. It names no tool. `unmarked`: it begins as JSON. `behind_text`: with a mark
    there."""
    if unmarked:
        return not (isinstance(why, BrokenCall) and is_broken_call(text))
    return (behind_text or text.startswith(_ALSO_IN_XML)) and not _NAMES_A_TOOL.search(text)


def _calls(text: str, names: frozenset[str] | None) -> Iterator[tuple[str, str]]:
    at = 0
    as_json = False
    while at < len(text):
        if named := _NAMED.match(text, at):
            name = next(filter(None, named.groups())).strip()
            arguments, at = _arguments(text, named.end())
            yield clean_name(name), json.dumps(arguments)
        elif glue := _GLUE.match(text, at):
            at = glue.end()
        elif not as_json and BEGINS.match(text, at):
            found, text = _python_calls(text[at:], names)
            as_json = True
            at = 0
            yield from found
        else:
            value, at = _value(text, at)
            for one in cast("list[Any]", value) if isinstance(value, list) else [value]:
                yield _described(one, names)


def _python_calls(text: str, names: frozenset[str] | None) -> tuple[list[tuple[str, str]], str]:
    """Return the calls in a Python list, and the rest of the text. With `names`, only of these tools."""
    try:
        calls, rest = read_python_calls(text)
    except (ValueError, RecursionError) as error:
        raise NotCalls(str(error)) from None
    if names is not None and not all(clean_name(name) in names for name, _ in calls):
        raise NotCalls("one of the calls is of no tool")
    return [(clean_name(name), json.dumps(arguments)) for name, arguments in calls], rest


def _arguments(text: str, at: int) -> tuple[dict[str, Any], int]:
    """Return the arguments at a position, as one JSON object or as tagged parameters, and where they end."""
    found: dict[str, Any] = {}
    for pattern in _PARAMETERS:
        while parameter := pattern.match(text, at):
            value = parameter["value"]
            is_text = _MARKED_AS_TEXT in parameter["attributes"]
            found[parameter["name"].strip()] = value if is_text else _scalar(value)
            at = parameter.end()
    if found:
        return found, at
    blank = re.compile(r"\s*").match(text, at)
    at = blank.end() if blank else at
    if not text.startswith("{", at):
        return {}, at
    value, at = _value(text, at)
    return (value if is_object(value) else {}), at


def _described(value: Any, names: frozenset[str] | None) -> tuple[str, str]:
    """Return the call in an object that names it, of one of these tools if `names` are given."""
    value = value.get("function", value) if is_object(value) and is_object(value.get("function")) else value
    name = next((value[key] for key in NAME_MEMBERS if value.get(key)), None) if is_object(value) else None
    if not isinstance(name, str) or not name:
        raise NotCalls("an object names no tool")
    arguments: Any = next((value[key] for key in ARGUMENT_MEMBERS if key in value), None)
    if names is not None and not (clean_name(name) in names and (is_object(arguments) or isinstance(arguments, str))):
        raise NotCalls("an object is no call of a tool")
    arguments = {} if arguments is None else arguments
    return clean_name(name), arguments if isinstance(arguments, str) else json.dumps(arguments)


def _value(text: str, at: int) -> tuple[Any, int]:
    if text[at] not in "{[":
        raise NotCalls(f"it goes on with {text[at : at + 40]!r}")
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        raise BrokenCall(str(error)) from None


def _scalar(text: str) -> Any:
    """Return the value of a tagged parameter: JSON if it is an object, a list, a number or a constant, else text."""
    stripped = text.strip()
    if stripped[:1] in ("{", "[") or stripped in ("true", "false", "null") or re.fullmatch(r"-?\d+(\.\d+)?", stripped):
        try:
            return read_json(stripped.encode(errors="replace"), ARGUMENT_LIMITS)
        except JsonRefused:
            return text
    return text
