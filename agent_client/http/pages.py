"""Lists that the server gives in pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from ..errors import UnexpectedReply
from .connection import Call, Connection

MOST_PAGES = 10_000
"""Most pages of one list."""
P = TypeVar("P", bound=BaseModel)


async def pages(connection: Connection, shape: type[P], call: Call, most: int = MOST_PAGES) -> AsyncGenerator[P]:
    """Yield one page after the other. Each has in `next` the row after which the following one begins. Raises
    UnexpectedReply for a list that does not move on or has no end."""
    for _ in range(most):
        page = await connection.fetch(shape, call)
        yield page
        after: str | int | None = getattr(page, "next", None)
        if after is None:
            return
        if after == call.params.get("after"):
            raise UnexpectedReply(f"{call.path}: `next` of a page is the position at which it began")
        call = replace(call, params={**call.params, "after": after})
    raise UnexpectedReply(f"{call.path}: the list has more than {most} pages")
