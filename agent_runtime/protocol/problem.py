"""The one error shape: RFC 9457 problem+json with a stable `code`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

PROBLEM_JSON = "application/problem+json"


class FieldFault(BaseModel):
    """One thing that is wrong with one field of the request."""

    field: str
    """Path of the field, as in `token_budget.max_tokens`."""
    message: str
    """What is wrong and what would be right."""


class Problem(BaseModel):
    """Why a request was not carried out. Members beyond these carry what there is of a result."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str
    code: str
    errors: list[FieldFault] | None = None

    def body(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude_none=True)
