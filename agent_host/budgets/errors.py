"""Refusals of model calls by a budget."""

from __future__ import annotations

from agent_common.errors import RequestError


class BudgetExhausted(RequestError):
    """The budget is used up."""

    status = 402
    code = "budget_exhausted"

    def __init__(self, message: str, limit: str) -> None:
        """`limit`: the limit that is reached, such as `daily_usd`; OpenAI's error shape has it as `param`."""
        super().__init__(message, param=limit)
