"""Pass on the fields of a model call that the host knows, and no others.

Providers and gateways take many more: by some a provider runs tools of its own, by which a guest without network could
send data out; by others a model answers that the catalog does not name, at a price that the ledger does not know.
"""

from __future__ import annotations

from typing import Any, cast

from agent_common.errors import LONGEST_FIELD
from agent_common.protocol import is_object

from ...errors import InvalidCall
from ..catalog.catalog import CatalogModel, Operation
from ..json_access import as_object

HOSTED_TOOLS = "hosted_tools"
"""The capability of models that may be given tools which their provider runs."""
# fmt: off
_FIELDS: dict[Operation, frozenset[str]] = {
    "chat": frozenset((
        "model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "functions",
        "function_call", "response_format", "temperature", "top_p", "top_k", "min_p", "repetition_penalty",
        "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs", "n", "seed", "stop",
        "max_tokens", "max_completion_tokens", "reasoning_effort", "verbosity", "prediction", "user",
        "safety_identifier", "prompt_cache_key",
    )),
    "embeddings": frozenset(("model", "input", "dimensions", "encoding_format", "user", "stream")),
}
_HOSTED_FIELDS = frozenset((
    "web_search_options", "search_parameters", "enable_search", "plugins", "mcp_servers", "tool_resources",
))
# fmt: on
_RUN_BY_THE_AGENT = ("function", "custom")
_TOOL_MEMBERS = {"type", "function", "custom", "cache_control"}
_CHOICES = ("none", "auto", "required", "any")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_NESTED = (dict, list)
"""What may hold a reference."""
_VALUES = ("const", "default", "enum", "examples")
"""Members of a JSON Schema that hold plain values."""
_SCHEMAS_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies")
"""Members whose own members are schemas, by names that are no keywords."""


def check_fields(payload: dict[str, Any], model: CatalogModel, operation: Operation) -> None:
    """Raise InvalidCall, naming the first field that is not allowed."""
    hosted = HOSTED_TOOLS in model.capabilities
    allowed = _FIELDS[operation].union(model.extra_fields, _HOSTED_FIELDS if hosted else ())
    for name in payload:
        if name not in allowed:
            line = f"models.{model.name}.extra_fields: [{name[:LONGEST_FIELD]}]"
            text = f"the host does not pass this field on, unless the catalog says {line}"
            raise _not_allowed(name, f"{text}, or it is one of {HOSTED_TOOLS}" if name in _HOSTED_FIELDS else text)
    tools = payload.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise _not_allowed("tools", "must be a list of tools")
    if not hosted:
        _check_tools("tools", cast("list[Any]", tools or []), model)
        _check_choice(payload.get("tool_choice"), model)
    for name in ("tools", "functions", "response_format"):
        if (where := _remote_reference(payload.get(name))) is not None:
            raise _not_allowed(f"{name}{where}", "a schema may only refer to itself (#/...): a provider would fetch it")


def _check_tools(where: str, tools: list[Any], model: CatalogModel) -> None:
    for at, tool in enumerate(tools):
        about = as_object(tool)
        if about.get("type") not in _RUN_BY_THE_AGENT or not about.keys() <= _TOOL_MEMBERS:
            raise _not_allowed(f"{where}[{at}]", _hosted_tool_fault(model))


def _check_choice(choice: Any, model: CatalogModel) -> None:
    """Raise InvalidCall unless the choice is a mode, or tools of the agent."""
    if choice is None or choice in _CHOICES:
        return
    about = as_object(choice)
    if about.get("type") == "allowed_tools":
        offered: Any = as_object(about.get("allowed_tools", about)).get("tools")
        _check_tools("tool_choice.tools", cast("list[Any]", offered) if isinstance(offered, list) else [], model)
    elif about.get("type") not in _RUN_BY_THE_AGENT:
        raise _not_allowed("tool_choice", _hosted_tool_fault(model))


def _remote_reference(value: Any, *, by_name: bool = False) -> str | None:
    """Return the path of the first reference to another document in a schema, or None. `by_name`: the members are
    schemas by names of the agent's own, which may be those of keywords."""
    if is_object(value):
        for name, member in value.items():
            if name in _REFERENCES and isinstance(member, str):
                if not member.startswith("#"):
                    return f".{name}"
            elif isinstance(member, _NESTED) and (by_name or name not in _VALUES):
                inner = _remote_reference(member, by_name=not by_name and name in _SCHEMAS_BY_NAME)
                if inner is not None:
                    return f".{name[:LONGEST_FIELD]}{inner}"
    elif isinstance(value, list):
        for index, element in enumerate(cast("list[Any]", value)):
            if (inner := _remote_reference(element)) is not None:
                return f"[{index}]{inner}"
    return None


def _hosted_tool_fault(model: CatalogModel) -> str:
    return (
        f"the provider would run this tool; tools must have the type {' or '.join(_RUN_BY_THE_AGENT)} and no members "
        f"but these, unless the catalog gives the model {model.name!r} the capability {HOSTED_TOOLS}"
    )


def _not_allowed(where: str, why: str) -> InvalidCall:
    return InvalidCall(f"{where}: {why}", param=where, code="field_not_allowed")
