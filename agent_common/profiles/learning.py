"""Learn a model's profile from the requests that it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..completions import ErrorReport, named_fields
from ..protocol import Profile
from .table import FOREIGN_SIGNATURE
from .tool_schemas import STRICTNESS, SchemaRule

_REFUSED_STATUSES = (400, 404, 422)
_TEMPLATE_STATUS = 500
"""That of llama.cpp where the template of a model refuses the order of roles."""
_OF_ROLES = frozenset(("user_after_tool", "two_users", "system_role", "several_calls"))
_REFUSAL = re.compile(
    r"unsupported|unrecognized|unknown|unexpected|extra|unavailable|must either|deprecated|no longer|no such"
    r"|(?:not|n't) (?:yet |currently |be )?"
    r"(?:support|permit|allow|recogni[sz]|implement|accept|expect|set\b|specified\b)"
    r"|(?:not|n't) have additional|\u4e0d\u652f\u6301"
    r"|(?:cannot|can't) be (?!(?:greater|more|larger|longer|higher|above|less|smaller|lower|below|negative|zero)\b)",
    re.IGNORECASE,
)
"""Words about a member itself, and not about its value."""
_REFUSAL_OR_FAULT = re.compile(
    r"invalid (?:parameter|field|argument|property|key)|not (?:a )?valid|not available|disabled|incompatible",
    re.IGNORECASE,
)
"""Words about a member, unless words about a value stand beside them."""
_OF_A_VALUE = re.compile(
    r"too (?:large|small|high|low|long|big)|between|range|at (?:least|most)|(?:less|greater|larger|smaller|more) than"
    r"|maximum|minimum|exceed|positive|negative|integer|number|must be|should be",
    re.IGNORECASE,
)
_REFUSED_CODES = frozenset(("unsupported_parameter", "unknown_parameter", "unsupported_value", "extra_forbidden"))
_OF_CHOICES = re.compile(r"\b(?:none|auto|required|any|named)\b", re.IGNORECASE)
"""Words about what may be chosen, and not about the choice itself."""
_AUTO = {"tool_choice_none": False}
_PARAMETERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "stream_options": lambda _: {"stream_options": False},
    "max_tokens": lambda words: {
        "output_limit": "max_completion_tokens" if "max_completion_tokens" in words else "none"
    },
    "max_completion_tokens": lambda _: {"output_limit": "max_tokens"},
    "tool_choice": lambda words: _AUTO if _OF_CHOICES.search(words) is not None else {"tool_choice": False},
    "temperature": lambda _: {"temperature": False},
    "prompt_cache_key": lambda _: {"prompt_cache_key": False},
    "reasoning_content": lambda _: {"reasoning": "never", "reasoning_required": False},
    "reasoning_details": lambda _: {"reasoning": "never"},
    # A parameter of that name is the caller's own, and not what goes back with a message.
    "reasoning": lambda words: {} if re.search(r"parameter\W{1,4}reasoning\b", words) else {"reasoning": "never"},
}
"""Member of a request -> what its refusal says of the model."""
_OF_A_MESSAGE = re.compile(r"\bmessages(?:\[\d+\]|\.\d+)((?:\.\w+|\[\d+\])+)")
"""The path of a member within a message."""
_ALWAYS_SENT = frozenset((
    *("role", "content", "name", "tool_calls", "tool_call_id", "function", "arguments", "id", "type"),
    *("system", "user", "assistant", "tool"),
))  # fmt: skip
"""Members of messages and of calls that every model takes, and roles, which some put into the path."""
_QUOTED = re.compile(
    r"(?:\bproperty|\bunknown (?:field|name)|properties are not allowed \()\W{1,4}([A-Za-z_]\w*)", re.IGNORECASE
)
"""A member without its path, which may stand elsewhere in the refusal or not at all. It is one that goes back with a
message: all others that are sent have a lesson of their own."""
_PLACES = frozenset(("body", "messages", "model", "stream", "tools", "property"))
"""What a path begins with, and members that every model takes."""
_OF_A_TOOL = re.compile(r"\btools\b|function_?declarations|\bschema for\b", re.IGNORECASE)
_LONG_DESCRIPTION = re.compile(
    r"\btools\W\d{1,4}\W{1,2}(?:function\.)?description\W.{0,80}maximum length (\d{2,5})\b", re.IGNORECASE
)
_WORDINGS: tuple[tuple[re.Pattern[str], dict[str, Any]], ...] = tuple(
    (re.compile(wording, re.IGNORECASE | re.DOTALL), changes)
    for wording, changes in (
        (r"tools with reasoning_effort.{0,200}set reasoning_effort to .?none", {"effort_with_tools": "none"}),
        (r"reasoning_content\W.{0,80}(?:must be passed|is required|missing|must be provided)", {
            "reasoning": "always", "reasoning_required": True,
        }),
        (r"(?:missing|requires?|must (?:have|include)).{0,60}reasoning_content", {
            "reasoning": "always", "reasoning_required": True,
        }),
        (r"\b(?:signature|data).{0,3} in .{0,3}(?:redacted_)?thinking|thinking.{0,60}blocks.{0,60}cannot be modified"
         r"|encrypted content.{0,160}could not be (?:verified|decrypted)", {
            "reasoning": "turn",
        }),
        (r"missing a.{0,3}thought.?signature", {"signature_blank": FOREIGN_SIGNATURE}),
        # Those of the running turn are required.
        (r"(?:invalid|corrupted) thought.?signature"
         r"|thought.?signature.{0,40}\b(?:not valid|invalid|corrupted|not be (?:verified|validated|decrypted))\b", {
            "kept_fields": "turn",
        }),
        (r"\buser\b.{0,30}after.{0,20}\btool\b|\btool\b.{0,60}(?:followed by|before).{0,30}\buser\b"
         r"|\btool\b.{0,30}followed by.{0,20}\bassistant\b|\bassistant\b.{0,20}after.{0,20}\btool\b"
         r"|\btool\b\W{1,6}user\b", {
            "user_after_tool": False,
        }),
        (r"\bsystem (?:role|messages?|prompts?|instructions?)\b.{0,20}\bnot\b.{0,12}\b(?:supported|allowed|enabled)"
         r"|(?:\bnot|n't) support.{0,12}\bsystem\W{0,3}(?: (?:role|messages?|prompts?|instructions?)\b|with\b)"
         r"|only user and assistant roles|developer instruction is not enabled", {
            "system_role": False,
        }),
        (r"only.{0,12}\b(?:single|one) tool.calls? at (?:once|a time)|multiple tool.calls\b.{0,20}\bnot supported", {
            "several_calls": False,
        }),
        (r"roles must alternate|should (?:be )?alternat|alternate between user"
         r"|(?:consecutive|successive).{0,40}(?:\buser\b|same role)"
         r"|(?:multiple|two|several).{0,12}user.{0,20}in a row", {
            "two_users": False, "user_after_tool": False,
        }),
        (r"(?:tool.?call|call).{0,20}\bid\b.{0,80}length of 9|a-z, ?A-Z, ?0-9.{0,40}length of 9"
         r"|tool_call_?id.{0,40}\b9 (?:characters|letters)", {
            "call_ids": "nine",
        }),
        (r"(?:tool_calls?\S*\.id|tool_call_id|call_id|tool_use\.id|tool_?use_?id)\b.{0,120}"
         r"(?:too long|maximum length|length less|pattern|at most|alphanumeric|regular expression)", {
            "call_ids": "short",
        }),
        (r"tool_choice\W.{0,80}(?:'none'|(?:should|must) be|supported values|none is not one of|only supports \W?auto)"
         r"|\bnone\W{1,3}tool choice.{0,20}\bnot\b|(?:invalid|unsupported).{0,20}tool[ _]?choice\W{1,3}none\b"
         r"|tool[ _]?choice\W{1,3}none\b.{0,20}\bnot\b", _AUTO),
        (r"\b(?:support\w*|unsupported|invalid)\b.{0,20}tool_?choice\W{1,3}value\b"
         r"|tool_?choice\W{1,3}value\W{1,3}(?:is )?not\b|\b(?:invalid )?value (?:for|of) .{0,3}tool_?choice\b", _AUTO),
        (r"\btemperature\W.{0,40}\bonly (?:be set to|the default|\d)|(?:only|default|fixed).{0,30}\btemperature of \d"
         r"|\btemperature\W.{0,30}(?:must be|should be|fixed (?:at|to)|has to be) (?:exactly |equal to |set to )?+"
         r"[\d.]++(?! ?(?:and|or|to|-|<))|\btemperature\b.{0,20}\bcannot both\b", {
            "temperature": False,
        }),
        (r"schema for function.{0,200}\btype\W{1,6}object\b|inputSchema.{0,60}following: object", {
            "tool_schemas": "object",
        }),
        (r"toolConfig|tools?=?\W.{0,40}must be (?:defined|provided|specified).{0,80}tool"
         r"|must (?:define|declare) (?:the )?\W?tools\b"
         r"|\btools\W.{0,20}must be set when.{0,40}tool"
         r"|tool calling without .{0,3}tools|\btools\W.{0,20}required.{0,40}\btool"
         r"|no tools (?:were )?provided.{0,60}tool"
         r"|requires? .{0,3}tools\b.{0,20}(?:specified|provided|defined|set)\b", {
            "tools_with_calls": True,
        }),
        (r"\bproperty (?:keys?|names?)\b.{0,80}\b(?:match|pattern)\b"
         r"|(?:schema|parameters|properties)\b.{0,80}\b(?:invalid|illegal) (?:property|parameter|argument) name", {
            "argument_names": "plain",
        }),
        (r"non-?empty for OBJECT\b|\bOBJECT\b.{0,40}non-?empty propert", {"tool_schemas": "filled"}),
        (r"(?:one|any|all)Of.{0,100}top level", {"tool_schemas": "object"}),
        (r"unknown name.{0,80}(?:function_?declarations|tools)\b"
         r"|(?:function_?declarations?\b.{0,40}\bparameters|input_?schema|schema for function|schema with types?)\b"
         r"(?!.{0,200}(?:too long|maximum length))"
         r"|(?:json|invalid) schema\b(?!.{0,40}response_format)|tools\W\S{0,40}parameters\W{1,3}is not", {
            "tool_schemas": "plain",
        }),
        (r"content\W.{0,60}(?:null|none|nil)\b|(?:null|none)\b.{0,40}\bcontent\b"
         r"|(?<![\w.])(?:(?:body\.)?messages\W{1,3}\d{1,5}\W{1,2}(?:assistant\.)?)?content(?:\.str)?\W.{0,20}"
         r"(?:required|must be a (?:valid )?string|valid string)|missing field \W?content\b", {
            "null_content": False,
        }),
    )
)  # fmt: skip


def lesson_of(status: int, report: ErrorReport, sent: Profile) -> Profile | None:
    """Return what a refusal says of the model beyond the profile by which the request was `sent`; None: nothing."""
    if status in _REFUSED_STATUSES:
        changes = _changes(report)
    elif status == _TEMPLATE_STATUS and (worded := _worded(report)).keys() <= _OF_ROLES:
        changes = worded
    else:
        return None
    if changes.get("reasoning") == "turn" and sent.reasoning in ("turn", "never"):
        changes = {"reasoning": "never"}  # what is refused was not of an earlier turn
    if changes == _AUTO and sent.tool_choice_none is False and _OF_CHOICES.search(report.message) is None:
        changes = {"tool_choice": False}  # what is refused was `auto`
    if changes.get("kept_fields") == "turn" and sent.kept_fields is False:
        return None
    learnt = Profile.model_validate(changes)
    if learnt.tool_schemas is not None and _is_as_strict(sent.tool_schemas, learnt.tool_schemas):
        return None
    news = {name: value for name, value in learnt.stated().items() if getattr(sent, name) != value}
    return Profile.model_validate(news) if news else None


def _is_as_strict(sent: SchemaRule | None, refused: SchemaRule) -> bool:
    return STRICTNESS.index(sent or "any") >= STRICTNESS.index(refused)


def _worded(report: ErrorReport) -> dict[str, Any]:
    text = f"{report.param}: {report.message}"
    if longest := _LONG_DESCRIPTION.search(text):
        return {"description_limit": int(longest[1])}
    return next((changes for pattern, changes in _WORDINGS if pattern.search(text)), dict[str, Any]())


def _changes(report: ErrorReport) -> dict[str, Any]:
    words = report.message
    if worded := _worded(report):
        return worded
    if not (_REFUSAL.search(words) or report.codes & _REFUSED_CODES or _is_refusal(words)):
        return {}  # it is about a value
    paths = [re.findall(r"[A-Za-z_]\w*", path) for path in _OF_A_MESSAGE.findall(f"{report.param} {words}")]
    named = named_fields(report).union(*paths)
    for name, changes_of in _PARAMETERS.items():
        if name in named or re.search(rf"(?<![\w.])(?:body\.)?{name}\b", words) is not None:
            return changes_of(words)
    kept = any("content" not in path and path[-1] not in _ALWAYS_SENT for path in paths if path)
    if not kept and _OF_A_TOOL.search(words) is None:
        kept = bool(set(_QUOTED.findall(words)) - _ALWAYS_SENT - _PLACES)
    return {"kept_fields": False} if kept else {}


def _is_refusal(words: str) -> bool:
    return _REFUSAL_OR_FAULT.search(words) is not None and _OF_A_VALUE.search(words) is None
