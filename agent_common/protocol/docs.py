"""Read the docstrings of a model's fields on demand.

pydantic can do this itself (`use_attribute_docstrings`), but then it parses the source of every class at import, which
adds a tenth of a second to a cold start.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

from pydantic import BaseModel


def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return field names and their docstrings, each on one line, including inherited ones."""
    docs: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls.__module__.split(".")[0] != "pydantic":
            docs |= _own_docs(cls)
    return {name: text for name, text in docs.items() if name in model.model_fields}


def describe(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Add the docstrings to a JSON Schema, as pydantic's `json_schema_extra` hook."""
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
