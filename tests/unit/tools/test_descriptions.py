"""What a model is told about the product's tools (the catalog is the same for every agent)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from agent_runtime.learnings import NoLearnings
from agent_runtime.sandbox import Confinement
from agent_runtime.tools import LOCKED_TOOL_NAMES, OTHER_TOOL_NAMES, Tool, builtin_tools, schema_fault

TOOLS = builtin_tools(Confinement(None), learnings=NoLearnings())
OF_THE_HOST = re.compile(
    r"(?i)(.*_)?(api_?key|key|token|secret|password|credentials?|auth\w*|headers|cookies?)(_.*)?"
    r"|(base_|mesh_)?url_?base|base_url|endpoint|proxy|model|provider|root|cwd|workspace|scratch|sandbox|confinement|principal"
    r"|approved|agent_id|session_id|call_id|user_id"
)
"""What an operator sets never comes from a model."""


def named(tools: tuple[Tool, ...] = TOOLS) -> Any:
    return pytest.mark.parametrize("tool", tools, ids=[tool.spec.name for tool in tools])


def parameters(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """All of them, also those within others."""
    for name, inner in schema.get("properties", {}).items():
        yield name, inner
        yield from parameters(inner)
    if "items" in schema:
        yield from parameters(schema["items"])


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if schema.get("type") == "object":
        yield schema
    for inner in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        yield from objects(inner)


@named()
def test_a_description_says_what_what_not_and_when(tool: Tool) -> None:
    text = tool.spec.description
    assert 100 < len(text) < 700
    assert re.match(r"[A-Z][a-z]+ ", text)
    assert "Not for " in text
    assert text.endswith(".")
    assert not re.search(r"\b(please|simply|powerful|easily)\b", text, re.IGNORECASE)


@named()
def test_every_parameter_is_described_and_there_are_no_others(tool: Tool) -> None:
    assert schema_fault(tool.spec.parameters) is None
    for name, schema in parameters(tool.spec.parameters):
        assert re.fullmatch("[a-z][a-z_]*", name)
        assert 5 < len(schema["description"]) < 300, name
        assert "type" in schema, name
    for schema in objects(tool.spec.parameters):
        assert schema["additionalProperties"] is False
        assert set(schema.get("required", ())) <= set(schema["properties"])


@named()
def test_nothing_that_the_operator_sets_is_a_parameter(tool: Tool) -> None:
    assert [name for name, _ in parameters(tool.spec.parameters) if OF_THE_HOST.fullmatch(name)] == []


def test_the_check_of_names_finds_what_it_is_for() -> None:
    wrong = [
        "api_key",
        "key",
        "github_token",
        "token",
        "root",
        "model",
        "workspace",
        "session_id",
        "headers",
        "password",
    ]
    assert all(OF_THE_HOST.fullmatch(name) for name in wrong)


@named()
def test_a_tool_tells_its_answer_and_its_bounds(tool: Tool) -> None:
    assert "`" in tool.result_doc
    assert tool.limits_doc
    assert tool.spec.name in (*LOCKED_TOOL_NAMES, *OTHER_TOOL_NAMES)
