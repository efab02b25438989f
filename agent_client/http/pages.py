"""Lists that the server gives in pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from ..errors import UnexpectedReply
from .connection import Call, Connection

P = TypeVar("P", bound=BaseModel)
MAX_PAGES = 10_000


async def pages(connection: Connection, shape: type[P], call: Call) -> AsyncGenerator[P]:
    """Yield one page after the other. Each has in `next` the row after which the following one begins. Raises
    UnexpectedReply for a list that does not end."""
    for _ in range(MAX_PAGES):
        page = await connection.fetch(shape, call)
        yield page
        after: str | int | None = getattr(page, "next", None)
        if after is None:
            return
        if after == call.params.get("after"):
            break
        call = replace(call, params={**call.params, "after": after})
    raise UnexpectedReply(f"{call.path}: the list does not end")
