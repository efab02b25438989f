"""Refuse fields that make a provider do more than answer with the model that the catalog names.

By tools that the provider runs, a guest without network could send data out; a model that the catalog does not name
would be billed at the wrong price.
"""

from __future__ import annotations

import re
from typing import Any

from ...errors import InvalidRequest
from ..catalog.catalog import CatalogModel
from ..json_access import as_list, as_object

HOSTED_TOOLS = "hosted_tools"
"""The capability of models that may be given tools which their provider runs."""
_RUN_BY_THE_AGENT = ("function", "custom")
_OTHER_MODELS = re.compile(r"models?_.*|models|fallbacks?|.*_fallbacks|route|preset|provider|engine|deployment.*", re.I)
_HOSTED = re.compile(
    r"(?!use_beam_search).*(?:search|plugin|mcp|connector|retriev|grounding|brows).*|tool_resources|tool_servers", re.I
)
_WRAPPED = re.compile(r"extra_(?:body|headers|query)|api_(?:base|key|type|version)|base_url|headers", re.I)
"""Fields by which gateways let a caller change the request that they send on."""


def check_fields(payload: dict[str, Any], model: CatalogModel) -> None:
    """Raise InvalidRequest, naming the first field that is not allowed."""
    hosted = HOSTED_TOOLS in model.capabilities
    for name in payload:
        if _OTHER_MODELS.fullmatch(name) or _WRAPPED.fullmatch(name):
            raise _not_allowed(name, "the host's catalog decides which model answers, and where")
        if not hosted and _HOSTED.fullmatch(name):
            raise _not_allowed(name, _hosted_tool_fault(model))
    if hosted:
        return
    for at, tool in enumerate(as_list(payload.get("tools"))):
        if as_object(tool).get("type") not in _RUN_BY_THE_AGENT:
            raise _not_allowed(f"tools[{at}]", _hosted_tool_fault(model))


def _hosted_tool_fault(model: CatalogModel) -> str:
    return (
        f"the provider would run this tool; tools must have the type {' or '.join(_RUN_BY_THE_AGENT)}, unless the "
        f"catalog gives the model {model.name!r} the capability {HOSTED_TOOLS}"
    )


def _not_allowed(where: str, why: str) -> InvalidRequest:
    error = InvalidRequest(f"{where}: {why}", code="field_not_allowed")
    error.status, error.extra = 400, {"param": where}
    return error
