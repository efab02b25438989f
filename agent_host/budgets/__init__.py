"""Budgets of teams and agents: what their model calls may cost in a day and in a month."""

from .account import Crossing
from .amount import Amount
from .budgets import Budgets
from .errors import BudgetExhausted
from .origin import CallOrigin, read_origin
from .periods import DAY_MS, day_of
from .reserves import HeldReserve, Reserve
from .routes import router
from .scopes import agent_of
from .spending import Charge

__all__ = [
    "DAY_MS",
    "Amount",
    "BudgetExhausted",
    "Budgets",
    "CallOrigin",
    "Charge",
    "Crossing",
    "HeldReserve",
    "Reserve",
    "agent_of",
    "day_of",
    "read_origin",
    "router",
]
