"""Reads the docstring under each field of a model, when somebody asks.

pydantic could do this itself (`use_attribute_docstrings`), but it parses the source of every class at import, which
costs a cold start a tenth of a second.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from pydantic import BaseModel


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Field name -> its docstring on one line, inherited ones included."""
    docs: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls.__module__.split(".")[0] != "pydantic":
            docs |= _own_docs(cls)
    return {name: text for name, text in docs.items() if name in model.model_fields}


def describe(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """pydantic's `json_schema_extra` hook: puts the docstrings into the JSON Schema."""
    for name, text in field_docs(model).items():
        if (field := schema.get("properties", {}).get(name)) is not None:
            field.setdefault("description", text)


def _own_docs(cls: type[BaseModel]) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    docs: dict[str, str] = {}
    for field, after in pairwise(getattr(body, "body", [])):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(after, ast.Expr):
            text = after.value.value if isinstance(after.value, ast.Constant) else None
            if isinstance(text, str):
                docs[field.target.id] = " ".join(text.split())
    return docs
