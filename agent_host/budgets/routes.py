"""`/budgets`: what teams and agents may use, for the operator."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from ..access import require_operator
from ..http import JsonRoute
from .budgets import Budgets
from .limits import BudgetLimits, BudgetList, BudgetState
from .scopes import checked_scope

router = APIRouter(route_class=JsonRoute, dependencies=[Depends(require_operator)])


def _budgets(request: Request) -> Budgets:
    return request.app.state.budgets


def _scope(scope: str) -> str:
    return checked_scope(scope)


Scope = Annotated[str, Depends(_scope)]


@router.get("/budgets")
async def list_budgets(request: Request) -> BudgetList:
    """List the budgets, with what was used of each."""
    return BudgetList(budgets=list(_budgets(request).list()))


@router.get("/budgets/{scope:path}")
async def get_budget(request: Request, scope: Scope) -> BudgetState:
    """Read one budget: of `team:NAME`, of `agent:ID`, or of a subagent `agent:ID/NAME`."""
    return _budgets(request).get(scope)


@router.put("/budgets/{scope:path}", responses={201: {"model": BudgetState}})
async def put_budget(request: Request, response: Response, scope: Scope, limits: BudgetLimits) -> BudgetState:
    """Set the limits of a scope; those that are left out are lifted. A new budget counts what was used before."""
    state, is_new = await _budgets(request).put(scope, limits)
    response.status_code = 201 if is_new else 200
    return state


@router.delete("/budgets/{scope:path}", status_code=204)
async def delete_budget(request: Request, scope: Scope) -> None:
    """Remove a budget."""
    await _budgets(request).delete(scope)
