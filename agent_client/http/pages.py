"""Lists that the server gives in pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import TypeVar

from pydantic import BaseModel

from .connection import Call, Connection

P = TypeVar("P", bound=BaseModel)


async def pages(connection: Connection, shape: type[P], call: Call) -> AsyncGenerator[P]:
    """Yield one page after the other. Each has in `next` the row after which the following one begins."""
    while True:
        page = await connection.fetch(shape, call)
        yield page
        after: str | int | None = getattr(page, "next", None)
        if after is None:
            return
        call = replace(call, params={**call.params, "after": after})
