"""The limits of one budget, and how far they are used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .amount import Amount
from .periods import Period

LimitName = Literal["daily_usd", "monthly_usd", "daily_tokens", "monthly_tokens"]
_MOST_TOKENS = 10**15
_MOST_USD = 1e12
_DIGITS = 9
"""Of US dollars that are compared. Sums of fractions are not exact: ten times 0.01 would not reach 0.1."""


class Limit(NamedTuple):
    """One limit."""

    name: LimitName
    period: Period
    most: float

    def part_of(self, amount: Amount) -> float:
        """Return what of an amount counts for the limit. Add amounts before this, which rounds."""
        return round(amount.usd, _DIGITS) if self.in_usd else amount.tokens

    def mark(self, percent: int) -> float:
        """Return what is used when a part of the limit is."""
        return round(self.most * percent / 100, _DIGITS)

    @property
    def in_usd(self) -> bool:
        return self.name.endswith("_usd")


class BudgetLimits(BaseModel):
    """Body of `PUT /budgets/{scope}`. Null: no such limit."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True)

    daily_usd: float | None = Field(default=None, ge=0, le=_MOST_USD, allow_inf_nan=False)
    """US dollars in a day, which begins at midnight UTC."""
    monthly_usd: float | None = Field(default=None, ge=0, le=_MOST_USD, allow_inf_nan=False)
    """US dollars in a calendar month."""
    daily_tokens: int | None = Field(default=None, ge=0, le=_MOST_TOKENS)
    """Tokens of all kinds in a day."""
    monthly_tokens: int | None = Field(default=None, ge=0, le=_MOST_TOKENS)
    """Tokens of all kinds in a calendar month."""

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if not any(True for _ in self.each()):
            raise ValueError(f"set at least one of {', '.join(type(self).model_fields)}; DELETE removes a budget")
        return self

    def each(self) -> Iterator[Limit]:
        """Yield the limits that are set."""
        limits: tuple[tuple[LimitName, Period, float | None], ...] = (
            ("daily_usd", "daily", self.daily_usd),
            ("monthly_usd", "monthly", self.monthly_usd),
            ("daily_tokens", "daily", self.daily_tokens),
            ("monthly_tokens", "monthly", self.monthly_tokens),
        )
        yield from (Limit(name, period, round(most, _DIGITS)) for name, period, most in limits if most is not None)


class Spent(BaseModel):
    """What was used in a period."""

    usd: float
    tokens: int

    @classmethod
    def of(cls, amount: Amount) -> Spent:
        return cls(usd=round(amount.usd, 12), tokens=amount.tokens)


class BudgetState(BaseModel):
    """One budget, as `GET /budgets` shows it."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    scope: str
    limits: BudgetLimits
    today: Spent
    """What calls have used that began today."""
    this_month: Spent
    reserved: Spent
    """The most that calls may use which are under way."""
    exhausted: list[LimitName]
    """Limits that are used up; while there are any, calls are refused."""


class BudgetList(BaseModel):
    """Answer of `GET /budgets`, by scope."""

    budgets: list[BudgetState]
