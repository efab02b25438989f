"""Skills whose arguments and results are pydantic models."""

from __future__ import annotations

import pytest

from .school import School

ORDERS = """
from datetime import date
from typing import Annotated

from pydantic import BaseModel, Field

class Item(BaseModel):
    name: str = Field(description="As in the catalog", pattern="^[a-z]+$")
    count: int = Field(default=1, ge=1, le=100)

class Order(BaseModel):
    items: list[Item]
    due: date | None = None

class Receipt(BaseModel):
    pieces: int
    due: date | None

@skill
def place(order: Order, note: Annotated[str, Field(max_length=10)] = "") -> Receipt:
    '''Place an order.

    Args:
        order: What is wanted
    '''
    return Receipt(pieces=sum(item.count for item in order.items), due=order.due)

@skill
def all_of(orders: list[Order]) -> list[Item]:
    '''List the items of several orders.'''
    return [item for order in orders for item in order.items]
"""


async def test_models_are_arguments_and_results(school: School) -> None:
    await school.teach(orders=ORDERS)
    order = {"items": [{"name": "nail", "count": 3}, {"name": "bolt"}], "due": "2026-01-31"}
    assert await school.value("place", order=order) == {"pieces": 4, "due": "2026-01-31"}
    assert (
        await school.value("all_of", orders=[order, order])
        == [
            {"name": "nail", "count": 3},
            {"name": "bolt", "count": 1},
        ]
        * 2
    )


async def test_the_model_of_the_agent_reads_their_schema(school: School) -> None:
    await school.teach(orders=ORDERS)
    [place] = [spec for spec in school.tools.specs if spec.name == "place"]
    order = place.parameters["properties"]["order"]
    item = order["properties"]["items"]["items"]
    assert item["properties"]["name"] == {"type": "string", "title": "Name", "description": "As in the catalog"}
    assert item["properties"]["count"] == {
        "type": "integer",
        "title": "Count",
        "default": 1,
        "minimum": 1,
        "maximum": 100,
    }
    assert item["required"] == ["name"]
    assert place.parameters["properties"]["note"]["maxLength"] == 10
    assert place.parameters["required"] == ["order"]


@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"items": [{"name": "NAIL"}]}, "order: items.0.name: String should match pattern '^[a-z]+$'"),
        ({"items": [{"name": "nail", "count": 0}]}, "order.items[0].count"),
        ({"items": 1}, "order.items"),
    ],
)
async def test_a_call_that_does_not_fit_names_the_field(school: School, order: object, told: str) -> None:
    await school.teach(orders=ORDERS)
    result = await school.call("place", order=order)
    assert told in (result.error_text or "")


async def test_a_model_that_contains_itself_is_refused_by_name(school: School) -> None:
    code = """
from pydantic import BaseModel

class Tree(BaseModel):
    branches: list["Tree"] = []

@skill
def grow(tree: Tree) -> int:
    '''Count branches.'''
    return 1
"""
    host = await school.teach(tree=code)
    [state] = host.states()
    assert state.error is not None
    assert "Tree contains itself" in state.error
