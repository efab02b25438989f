"""One budget at work: what was used in the present day and month, and what calls under way may still use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from .amount import Amount
from .errors import BudgetExhausted
from .limits import BudgetLimits, BudgetState, Limit, LimitName, Spent
from .periods import Period, end_of, name_of

_MARKS = (80, 100)
"""Percent of a limit at which somebody is told."""
_MOST_PERIODS = 100
_PERIODS: tuple[Period, ...] = ("daily", "monthly")


@dataclass(frozen=True, slots=True)
class Crossing:
    """A limit that a charge has brought to a mark."""

    scope: str
    limit: LimitName
    percent: int
    """80 or 100."""
    most: float
    spent: float


@dataclass(slots=True)
class Account:
    """The limits of a scope, and its use in memory. The database has the same after each of the ledger's writes."""

    scope: str
    limits: BudgetLimits
    spent: dict[str, Amount] = field(default_factory=dict[str, Amount])
    """By the name of a day or a month; the latest are kept."""
    reserved: Amount = field(default_factory=Amount)

    def used(self, period: Period, now: int) -> Amount:
        """Return what calls have used that began in the present day or month."""
        return self.spent.get(name_of(period, now), Amount())

    def exhausted(self, now: int) -> Iterator[Limit]:
        """Yield the limits that are used up."""
        for limit in self.limits.each():
            if limit.part_of(self.used(limit.period, now)) >= limit.most:
                yield limit

    def check(self, now: int) -> None:
        """Raise BudgetExhausted if a limit is used up."""
        for limit in self.exhausted(now):
            spent = limit.part_of(self.used(limit.period, now))
            unit = "US dollars" if limit.in_usd else "tokens"
            until = end_of(limit.period, now).strftime("%Y-%m-%dT%H:%MZ")
            text = f"the budget of {self.scope} is used up: {spent:.12g} of {limit.most:.12g} {unit}, {limit.name}"
            raise BudgetExhausted(f"{text}; it begins anew at {until}", limit.name)

    def allows_another(self, now: int) -> bool:
        """Whether another call may begin: even if all that are under way use the most they may, the limits are not
        reached before it."""
        for limit in self.limits.each():
            expected = limit.part_of(self.used(limit.period, now).plus(self.reserved))
            if expected >= limit.most:
                return False
        return True

    def charge(self, amount: Amount, began: int, now: int) -> list[Crossing]:
        """Add what a call has used that began at `began`. Returns the marks that this has brought it to."""
        names = {period: name_of(period, began) for period in _PERIODS}
        crossings: list[Crossing] = []
        for limit in self.limits.each():
            spent = self.spent.get(names[limit.period], Amount())
            before = limit.part_of(spent)
            after = limit.part_of(spent.plus(amount))
            if names[limit.period] == name_of(limit.period, now):
                marks = [mark for mark in _MARKS if before < limit.mark(mark) <= after]
                crossings += [Crossing(self.scope, limit.name, mark, limit.most, after) for mark in marks]
        for name in names.values():
            self.spent[name] = self.spent.get(name, Amount()).plus(amount)
        self._drop_old()
        return crossings

    def state(self, now: int) -> BudgetState:
        return BudgetState(
            scope=self.scope,
            limits=self.limits,
            today=Spent.of(self.used("daily", now)),
            this_month=Spent.of(self.used("monthly", now)),
            reserved=Spent.of(self.reserved),
            exhausted=[limit.name for limit in self.exhausted(now)],
        )

    def set_spent(self, spent: Mapping[str, Amount]) -> None:
        self.spent = dict(spent)
        self._drop_old()

    def _drop_old(self) -> None:
        """Forget the oldest periods, so that a budget's memory does not grow with the years. Their number decides and
        not the clock: one that jumps ahead and back would have the present month forgotten."""
        self.spent = dict(sorted(self.spent.items())[-_MOST_PERIODS:])
